"""Names that clients chose, cut and without a character that is not printable, for logs, metrics and pages.

Commands show them whole, with escapes: `policies.escaping`.
"""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARS: Final = 249
"""Kafka's limit for the name of a topic; a client id has none."""


def printable(text: str, max_chars: int = MAX_NAME_CHARS) -> str:
    """Return `text`, cut to `max_chars`, with `?` for every character that is not printable."""
    shown = text[:max_chars]
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else "?" for each in shown)
