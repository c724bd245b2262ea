"""The rights that clients lacked, read from the family `access` of a usage log.

Rules:
- Closed files and those that still grow are read; a last line that is not complete is left out.
- A row that is missing (a gap in `seq`) is counted: what is made of the others may lack something.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FAMILY: Final = "access"
VERSION: Final = 1


class SeenRight(msgspec.Struct, frozen=True):
    """The columns of a row that matter here."""

    v: int
    instance: str
    boot: str
    seq: int
    user: str
    proof: str
    client_id: str
    policy: str
    kind: Literal["topic", "group", "transaction", "cluster"]
    name: str | None
    operation: str


class Seen(NamedTuple):
    """What a usage log says."""

    rights: frozenset[SeenRight]
    """Each client's rights once: `seq`, `instance` and `boot` are those of one of their rows."""
    files: int
    missing_rows: int


def read_rights(directory: Path, policy: str) -> Seen:
    """Return the rights that an entry of this name did not give, of all files in a folder of a usage log.

    Raises OSError for a file that cannot be read, and ValueError for one with lines that are no rows.
    """
    rights: dict[tuple[str | None, ...], SeenRight] = {}
    numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
    files = 0
    for file in sorted(_files(directory)):
        files += 1
        for row in _rows(file):
            numbers[row.instance, row.boot].add(row.seq)
            key = (row.user, row.proof, row.client_id, row.kind, row.name, row.operation)
            if row.policy == policy:
                rights.setdefault(key, row)
    missing = sum(max(seen) - min(seen) + 1 - len(seen) for seen in numbers.values())
    return Seen(frozenset(rights.values()), files, missing)


def _files(directory: Path) -> Iterator[Path]:
    folder = directory / FAMILY
    yield from folder.glob(f"dt=*/{FAMILY}-*.jsonl")
    yield from folder.glob(f".{FAMILY}-*.jsonl.open")


def _rows(file: Path) -> Iterator[SeenRight]:
    decoder = msgspec.json.Decoder(SeenRight)
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return  # it is being written
            try:
                row = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(
                    f"{file}:{number}: no row of the family {FAMILY}: {error}"
                ) from error
            if row.v != VERSION:
                raise ValueError(f"{file}:{number}: found version {row.v}, expected {VERSION}")
            yield row
