"""What an event log says of the tasks."""

import json
from pathlib import Path

from bench.pipeline.event_log import Totals, totals


def task(reason: str, **metrics: int) -> str:
    """Return a line as Spark writes it when a task has ended."""
    return json.dumps(
        {
            "Event": "SparkListenerTaskEnd",
            "Task End Reason": {"Reason": reason},
            "Task Metrics": {
                "Disk Bytes Spilled": metrics.get("spilled", 0),
                "Input Metrics": {"Bytes Read": metrics.get("read", 0)},
                "Shuffle Write Metrics": {"Shuffle Bytes Written": metrics.get("shuffled", 0)},
            },
        },
        separators=(",", ":"),
    )


def test_tasks_of_all_applications_are_added(tmp_path: Path) -> None:
    """One that failed is counted beside them; other events are passed over."""
    start = '{"Event":"SparkListenerTaskStart","Task End Reason":{}}'
    done = task("Success", read=7, shuffled=5, spilled=3)
    (tmp_path / "app-1").write_text(f"{start}\n{done}\n{done}\n")
    (tmp_path / "app-2").write_text(f"{done}\n{task('ExceptionFailure', read=100)}\n")

    assert totals(tmp_path) == Totals(
        tasks=3, failed_tasks=1, read_bytes=21, shuffled_bytes=15, spilled_bytes=9
    )
