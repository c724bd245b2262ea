"""The corpus: conversations that broke something once, or that well might. One file each, `corpus/NAME.hex`.

A line is `client HEX` or `broker HEX` (the next bytes of that side), `again` (on a new connection) or a comment.
"""

from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "corpus"


class Line(NamedTuple):
    """Bytes of one side."""

    by_client: bool
    data: bytes


Conversation = list[Line]
"""The bytes of one connection, in order."""


def names() -> list[str]:
    """Return the names of all entries."""
    return sorted(path.stem for path in FOLDER.glob("*.hex"))


def read(name: str) -> list[Conversation]:
    """Return the conversations of an entry."""
    found: list[Conversation] = [[]]
    for text in (FOLDER / f"{name}.hex").read_text("ascii").splitlines():
        word, _, data = text.partition(" ")
        if word == "again":
            found.append([])
        elif word in {"client", "broker"}:
            found[-1].append(Line(word == "client", bytes.fromhex(data)))
        else:
            assert word == "#", f"{name}: {text}"
    return found
