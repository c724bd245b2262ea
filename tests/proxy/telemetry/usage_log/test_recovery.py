"""Files that a process left hidden when it died."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.usage_log.names import FileName
from proxy.telemetry.usage_log.recovery import Adopted, adopt
from proxy.telemetry.usage_log.segment import GrowingFile

NAME = FileName("entity", "a", "0195a3c2b1000042", 1)
LINES = b"".join(json.dumps({"ts_ms": 1000 * n, "seq": n}).encode() + b"\n" for n in range(1, 40))


def leave(directory: Path, content: bytes, name: FileName = NAME) -> Path:
    """What a dead process leaves."""
    folder = directory / name.family
    folder.mkdir(exist_ok=True)
    path = folder / name.hidden
    path.write_bytes(content)
    return path


@given(st.integers(0, len(LINES)))
def test_whatever_byte_it_died_at_the_whole_lines_are_kept(died_at: int) -> None:
    """Cut anywhere, what is shown are the lines that were whole, all of them and nothing else."""
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        left = LINES[:died_at]
        whole = left[: left.rfind(b"\n") + 1]
        leave(directory, left)

        adopted = adopt(directory, "a")

        shown = list(directory.glob("entity/dt=*/*"))
        assert b"".join(path.read_bytes() for path in shown) == whole
        assert adopted == Adopted(1, len(left) - len(whole))
        assert [path.name for path in shown] == [NAME.closed] * bool(whole)
        assert list(directory.glob("entity/.*")) == []
        assert adopt(directory, "a") == Adopted()


def test_a_long_last_line_is_found_to_be_torn(tmp_path: Path) -> None:
    """The last newline may lie many blocks before the end."""
    leave(tmp_path, b'{"ts_ms":5}\n' + b"x" * 300_000)

    assert adopt(tmp_path, "a") == Adopted(1, 300_000)
    (path,) = tmp_path.glob("entity/dt=1970-01-01/*")
    assert path.read_bytes() == b'{"ts_ms":5}\n'


def test_the_file_of_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    """Two processes of one name: the second does not take what the first is writing."""
    growing = GrowingFile.begin(tmp_path / "entity", NAME, 0)
    growing.append(b'{"ts_ms":5}\n')

    assert adopt(tmp_path, "a") == Adopted()
    assert growing.path.exists()

    growing.close()


def test_the_callers_own_are_left_alone(tmp_path: Path) -> None:
    """Where the file system has no locks the names of the caller's own files say it."""
    path = leave(tmp_path, LINES)

    assert adopt(tmp_path, "a", {path}) == Adopted()
    assert path.exists()


def test_other_instances_and_other_files_are_left_alone(tmp_path: Path) -> None:
    """Several may share a directory; and it may hold what is nobody's."""
    others = [
        leave(tmp_path, LINES, NAME._replace(instance="b")),
        leave(tmp_path, LINES, NAME._replace(instance="a-b")),
    ]
    stray = tmp_path / "entity" / ".notes"
    stray.write_bytes(b"x")

    assert adopt(tmp_path, "a") == Adopted()
    assert all(path.exists() for path in (*others, stray))


def test_the_day_of_an_unreadable_first_row_is_that_of_the_file(tmp_path: Path) -> None:
    """A file goes to some day even if its first line is not what it should be."""
    path = leave(tmp_path, b"rubbish\n")
    os.utime(path, (86_400 * 9, 86_400 * 9))

    adopt(tmp_path, "a")

    assert (tmp_path / "entity" / "dt=1970-01-10" / NAME.closed).exists()
