"""Recovery of segments that a process left open when it died."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.usage_log.recovery import Recovered, recover
from proxy.telemetry.usage_log.segment import Segment, SegmentName

NAME = SegmentName("entity", "a", "0195a3c2b1000042", 1)
LINES = b"".join(json.dumps({"ts_ms": 1000 * n, "seq": n}).encode() + b"\n" for n in range(1, 40))


def leave(directory: Path, content: bytes, name: SegmentName = NAME) -> Path:
    """Make the open segment of a dead process."""
    folder = directory / name.family
    folder.mkdir(exist_ok=True)
    path = folder / name.hidden
    path.write_bytes(content)
    return path


@given(st.integers(0, len(LINES)))
def test_whole_lines_are_kept_for_any_byte_of_death(died_at: int) -> None:
    """A segment cut at any byte is recovered with all of its whole lines and nothing else."""
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        left = LINES[:died_at]
        whole = left[: left.rfind(b"\n") + 1]
        leave(directory, left)

        recovered = recover(directory, "a")

        shown = list(directory.glob("entity/dt=*/*"))
        assert b"".join(path.read_bytes() for path in shown) == whole
        assert recovered == Recovered(1, len(left) - len(whole))
        assert [path.name for path in shown] == [NAME.closed] * bool(whole)
        assert list(directory.glob("entity/.*")) == []
        assert recover(directory, "a") == Recovered()


def test_a_long_half_line_is_cut_off(tmp_path: Path) -> None:
    """The last newline is found many blocks before the end."""
    leave(tmp_path, b'{"ts_ms":5}\n' + b"x" * 300_000)

    assert recover(tmp_path, "a") == Recovered(1, 300_000)
    (path,) = tmp_path.glob("entity/dt=1970-01-01/*")
    assert path.read_bytes() == b'{"ts_ms":5}\n'


def test_segments_of_the_living_and_of_others_are_left_alone(tmp_path: Path) -> None:
    """The caller excludes its own open segments by path, in case the file system has no locks."""
    segment = Segment(tmp_path / "entity", NAME, 0)
    segment.append(b'{"ts_ms":5}\n')

    assert recover(tmp_path, "a") == Recovered()
    assert segment.path.exists()

    segment.close()

    path = leave(tmp_path, LINES)

    assert recover(tmp_path, "a", {path}) == Recovered()
    assert path.exists()
    path.unlink()

    others = [
        leave(tmp_path, LINES, NAME._replace(instance="b")),
        leave(tmp_path, LINES, NAME._replace(instance="a-b")),
    ]
    stray = tmp_path / "entity" / ".notes"
    stray.write_bytes(b"x")

    assert recover(tmp_path, "a") == Recovered()
    assert all(path.exists() for path in (*others, stray))


def test_the_day_of_an_unreadable_first_row_is_that_of_the_file(tmp_path: Path) -> None:
    """A segment whose first row cannot be read goes to the day of its last write."""
    path = leave(tmp_path, b"rubbish\n")
    os.utime(path, (86_400 * 9, 86_400 * 9))

    recover(tmp_path, "a")

    assert (tmp_path / "entity" / "dt=1970-01-10" / NAME.closed).exists()
