"""Makes text that a client chose safe to show, in terminals, logs, metrics and pages."""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARS: Final = 249
"""Kafka's limit for the name of a topic; a client id has none."""


def escaped(text: str) -> str:
    r"""Return `text` with an escape (`\n`, `\x1b`, `\u202e`) for every character that is not printable.

    Those are control characters, marks that change the direction of what follows, invisible characters, and halves
    of surrogate pairs. A backslash stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def printable(text: str, max_chars: int = MAX_NAME_CHARS) -> str:
    """Return `text`, cut to `max_chars`, with `?` for every character that is not printable."""
    shown = text[:max_chars]
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() else "?" for each in shown)
