"""Networks in settings: CIDR, or single addresses."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_network
from typing import Annotated, Final

import msgspec

_WORDS: Final = "a network such as 10.0.0.0/8 or fd00::/8, or an address"


def check_network(value: object) -> tuple[str, str] | None:
    """Check a network; the nearest to one with bits after its prefix is the network itself."""
    text = str(value)
    try:
        ip_network(text)
    except ValueError:
        with suppress(ValueError):
            return _WORDS, str(ip_network(text, strict=False))
        return _WORDS, ""
    return None


Network = Annotated[
    str,
    msgspec.Meta(
        examples=["10.0.0.0/8", "fd00::/8"],
        extra={"expected": _WORDS, "check": check_network},
    ),
]
