"""The set-up of the process of `sluice run`, before it imports anything large.

Rules:
- A standard error that blocks, is closed, or refuses what is written harms nothing (`proxy.telemetry.stderr`).
- Python's collector rests until the proxy has been put together and `app.run` has collected once: a tenth of the start.
- Libraries import nothing that only other users of theirs need.
"""

from __future__ import annotations

import gc
import inspect
import sys
from _blake2 import blake2b  # hashlib's own, as is the next hmac's without OpenSSL
from _operator import _compare_digest

from proxy.late_module import import_late
from proxy.telemetry import stderr

STRUCTLOG_OFFERS = ("better_exceptions", "colorama", "greenlet", "rich")


def prepare() -> None:
    """Make this process that of a proxy."""
    stderr.install()
    gc.disable()
    import_lean()


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
