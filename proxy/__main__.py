"""`sluice`, and `python -m proxy`, which is the same command.

A proxy is protected first, before anything that takes time to import: from a SIGHUP that comes early, and from a
standard error that blocks, is closed, or refuses what is written.
"""

from __future__ import annotations

import gc
import inspect
import sys
from _blake2 import blake2b  # hashlib's own, as is the next hmac's without OpenSSL
from _operator import _compare_digest

from proxy import builds, hangup
from proxy.late_module import import_late

STRUCTLOG_OFFERS = ("better_exceptions", "colorama", "greenlet", "rich")


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
    """Leave out what libraries import for users unlike us: 14 MB, and a tenth of the start.

    Trio imports ssl and hmac, and hashlib comes with both: OpenSSL takes 5 MB, and without TLS and passwords nothing
    uses it. structlog imports rich, colorama and better_exceptions for a terminal, greenlet for its users, and asyncio,
    of which starlette wants one function and kio the name of a type. html makes starlette's error pages. requests has
    charset_normalizer for replies without a charset.
    """
    import_late(
        "asyncio",
        iscoroutinefunction=inspect.iscoroutinefunction,
        StreamWriter=type("StreamWriter", (), {}),
    )
    import_late("html")
    import_late("charset_normalizer", __version__="3.0.0")  # requests looks whether it is old
    import_late("hashlib", blake2b=blake2b)
    import_late("hmac", compare_digest=_compare_digest)
    import_late("ssl")
    modules: dict[str, object] = sys.modules  # type: ignore[assignment] # None is a module that cannot be imported
    hidden = [each for each in STRUCTLOG_OFFERS if each not in modules]
    modules.update(dict.fromkeys(hidden))
    import structlog  # noqa: F401, PLC0415 - see above

    for each in hidden:
        del modules[each]


if __name__ == "__main__":
    main()
