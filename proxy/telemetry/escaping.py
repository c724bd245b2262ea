"""Text that a client chose, made safe to show.

One function for the terminal, the log and the pages: the same name looks the same wherever it is shown.
"""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""`text` with an escape (`\n`, `\x1b`, `\u202e`) for every character that is not printable.

    Those are control characters, marks that change the direction of what follows, invisible characters, and halves
    of surrogate pairs. A backslash stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
