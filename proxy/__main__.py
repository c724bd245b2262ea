"""`sluice`, and `python -m proxy`, which is the same command.

A proxy is protected first, before anything that takes time to import: from a SIGHUP that comes early, and from a
standard error that blocks, is closed, or refuses what is written.
"""

from __future__ import annotations

import gc
import sys

from proxy import hangup


def main() -> None:
    """Run the command that the arguments name."""
    if "run" in sys.argv[1:]:
        hangup.note()
        gc.disable()  # until `app.run` has collected once: a tenth of the start
        from proxy.telemetry import stderr  # noqa: PLC0415 - see the module

        stderr.install()
        _import_structlog_alone()
    from proxy.cli.main import main as command  # noqa: PLC0415 - see the module

    command(prog_name="sluice")


def _import_structlog_alone() -> None:
    """Import structlog without rich, which only a terminal's tracebacks use: 3 MB, and a tenth of the start."""
    modules: dict[str, object] = sys.modules  # type: ignore[assignment] # None is a module that cannot be imported
    modules["rich"] = None
    import structlog  # noqa: F401, PLC0415 - see above

    del modules["rich"]


if __name__ == "__main__":
    main()
