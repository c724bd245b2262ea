"""How much room the closed files may take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proxy.telemetry.usage_log.names import FileName
from proxy.telemetry.usage_log.retention import Shelf

if TYPE_CHECKING:
    from pathlib import Path


def put(directory: Path, place: int, size_bytes: int, instance: str = "a") -> Path:
    """A closed file, written at second `place`, on a day of its own for every ten."""
    name = FileName("entity", instance, "0195a3c2b1000042", place)
    path = directory / "entity" / f"dt=1970-01-{1 + place // 10:02d}" / name.closed
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size_bytes)
    os.utime(path, (place, place))
    return path


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path) -> None:
    """What is beyond the bound, and a sixteenth of it more, is deleted, oldest first."""
    files = [put(tmp_path, place, 100) for place in range(20)]
    shelf = Shelf(tmp_path, "a", 1600)
    shelf.look()

    shelf.make_room(0)

    assert [path.exists() for path in files] == [False] * 5 + [True] * 15
    assert shelf.deleted == 5
    assert shelf.closed_bytes == 1500


def test_growing_files_count(tmp_path: Path) -> None:
    """What is not closed yet takes room as well."""
    files = [put(tmp_path, place, 100) for place in range(10)]
    shelf = Shelf(tmp_path, "a", 1600)
    shelf.look()

    shelf.make_room(600)
    assert all(path.exists() for path in files)

    shelf.make_room(700)
    assert sum(path.exists() for path in files) == 8


def test_nothing_of_others_is_counted_or_deleted(tmp_path: Path) -> None:
    """Another instance in the same directory, and files that are not segments."""
    other = put(tmp_path, 0, 5000, instance="b")
    note = tmp_path / "entity" / "dt=1970-01-01" / "notes.jsonl"
    note.write_bytes(b"x" * 5000)
    mine = put(tmp_path, 1, 2000)
    shelf = Shelf(tmp_path, "a", 1600)
    shelf.look()

    shelf.make_room(0)

    assert (other.exists(), note.exists(), mine.exists()) == (True, True, False)


def test_what_others_took_away_makes_room(tmp_path: Path) -> None:
    """Somebody has compacted some of them: nothing more has to go."""
    files = [put(tmp_path, place, 100) for place in range(20)]
    shelf = Shelf(tmp_path, "a", 1600)
    shelf.look()
    for path in files[10:]:
        path.unlink()
    shelf.add(100)

    shelf.make_room(0)

    assert all(path.exists() for path in files[:10])
    assert shelf.deleted == 0


def test_a_day_without_files_is_gone(tmp_path: Path) -> None:
    """An empty folder is taken away with its last file."""
    for place in range(20):
        put(tmp_path, place, 100)
    shelf = Shelf(tmp_path, "a", 1000)
    shelf.look()

    shelf.make_room(0)

    assert [path.name for path in (tmp_path / "entity").iterdir()] == ["dt=1970-01-02"]
