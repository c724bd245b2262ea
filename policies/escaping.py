"""Makes text that a client chose safe to show: the one place, for all commands, logs and pages."""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""Return `text` with an escape (`\n`, `\x1b`, `\u202e`) for every character that is not printable.

    Those are control characters, marks that change the direction of what follows, invisible characters, characters
    without a meaning of their own, and halves of surrogate pairs. A backslash stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
