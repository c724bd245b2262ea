"""`sluice`, and `python -m proxy`, which is the same command.

A proxy is protected first, before anything that takes time to import: from a SIGHUP that comes early, and from a
standard error that blocks, is closed, or refuses what is written.
"""

from __future__ import annotations

import gc
import inspect
import sys

from proxy import builds, hangup
from proxy.late_module import import_late


def main() -> None:
    """Run the command that the arguments name."""
    builds.choose()
    if "run" in sys.argv[1:]:
        hangup.note()
        gc.disable()  # until `app.run` has collected once: a tenth of the start
        from proxy.telemetry import stderr  # noqa: PLC0415 - see the module

        stderr.install()
        import_lean()
    from proxy.cli.main import main as command  # noqa: PLC0415 - see the module

    command(prog_name="sluice")


def import_lean() -> None:
    """Leave out what libraries import for users unlike us: 8 MB, and a tenth of the start.

    structlog imports rich for a terminal's tracebacks, and asyncio, of which starlette wants one function and kio the
    name of a type. html makes starlette's error pages. requests has charset_normalizer for replies without a charset.
    """
    import_late(
        "asyncio",
        iscoroutinefunction=inspect.iscoroutinefunction,
        StreamWriter=type("StreamWriter", (), {}),
    )
    import_late("html")
    import_late("charset_normalizer", __version__="3.0.0")  # requests looks whether it is old
    modules: dict[str, object] = sys.modules  # type: ignore[assignment] # None is a module that cannot be imported
    modules["rich"] = None
    import structlog  # noqa: F401, PLC0415 - see above

    del modules["rich"]


if __name__ == "__main__":
    main()
