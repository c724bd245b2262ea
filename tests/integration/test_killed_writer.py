"""The writer of the usage log is killed at its work again and again, and started again."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from proxy.telemetry.usage_log.retention import SegmentWriter
from proxy.telemetry.usage_log.segment import new_boot
from tests.support.telemetry.usage_log import START_MS, shown

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "processes" / "row_writer.py"

pytestmark = pytest.mark.slow

lives = st.lists(
    st.tuples(
        st.integers(0, 40),  # seconds it writes ...
        st.integers(0, 20),  # ... and ms before it is killed
        st.integers(1, 300),  # rows a second
        st.sampled_from([3, 1000]),  # how long a client id is
        st.sampled_from([2000, 10_000, 60_000]),
        st.sampled_from([4096, 1 << 20]),
        st.sampled_from([7, 1000, 1 << 30]),
    ),
    min_size=1,
    max_size=3,
)


def start(directory: Path, *arguments: int) -> subprocess.Popen[bytes]:
    """Start the writer as a process."""
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(directory), *map(str, arguments)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )


def live_and_die(directory: Path, seconds: int, late_ms: int, *arguments: int) -> tuple[str, int]:
    """Kill it a little after it has written so many seconds; return its boot, and the rows written by then."""
    with start(directory, *arguments) as process:
        assert process.stdout is not None
        boot = process.stdout.readline().decode().strip()
        written = [process.stdout.readline() for _ in range(seconds)]
        time.sleep(late_ms / 1000)
        process.kill()
        written += process.stdout.readlines()
    whole = [line for line in written if line.endswith(b"\n")]
    return boot, int(whole[-1]) if whole else 0


def start_again(directory: Path) -> int:
    """Start the next process; return how many bytes of half lines it found."""
    writer = SegmentWriter(directory, "pod-7", new_boot(START_MS))
    recovered = writer.open()
    writer.close()
    return recovered.torn_bytes


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lives)
def test_no_file_is_torn_and_no_more_than_the_last_second_is_lost(
    lived: list[tuple[int, ...]],
) -> None:
    """After SIGKILL at any moment the next start shows whole lines only: of each process `seq` 1,
    2, 3 ... without a gap, up to the last row given to the files and at most the next second.
    """
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        deaths = []
        for seconds, late_ms, rows, *more in lived:
            boot, written = live_and_die(directory, seconds, late_ms, rows, *more)
            deaths.append((boot, rows, written))

        event("half a line was cut off" if start_again(directory) else "no line was half")

        rows_shown = shown(directory, "entity")
        for boot, rows, written in deaths:
            seqs = [row["seq"] for row in rows_shown if row["boot"] == boot]
            assert seqs == list(range(1, len(seqs) + 1))
            assert written <= len(seqs) <= written + rows
        assert len(rows_shown) == sum(
            1 for row in rows_shown if row["boot"] in {boot for boot, _, _ in deaths}
        )
        assert list(directory.glob("entity/.*")) == []
        assert all(path.name.endswith(".jsonl") for path in directory.rglob("*") if path.is_file())


def test_half_a_second_is_kept_up_to_its_last_whole_line(tmp_path: Path) -> None:
    """Killed while a second is being written, byte by byte, its first rows are shown, whole."""
    with start(tmp_path, 3000, 1000, 60_000, 1 << 30, 7) as process:
        while not any(path.stat().st_size > 100_000 for path in tmp_path.glob("entity/.*")):
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()

    assert start_again(tmp_path) > 0
    rows = shown(tmp_path, "entity")
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert 50 < len(rows) < 3000
