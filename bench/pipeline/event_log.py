"""What Spark's event log says of an application: the tasks, and the bytes that they read, exchanged and spilled.

The log is one file of JSON lines, without rolling and compression (SETTINGS). Spilled bytes are those on disk.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


def settings(folder: Path) -> dict[str, str]:
    """Return the settings with which an application writes its event log into a folder, which must be there."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


@dataclass(slots=True)
class Totals:
    """The sums over all tasks of some applications."""

    tasks: int = 0
    failed_tasks: int = 0
    read_bytes: int = 0
    shuffled_bytes: int = 0
    spilled_bytes: int = 0

    def add(self, metrics: dict[str, Any]) -> None:
        """Add the metrics of a task."""
        self.tasks += 1
        self.read_bytes += metrics["Input Metrics"]["Bytes Read"]
        self.shuffled_bytes += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        self.spilled_bytes += metrics["Disk Bytes Spilled"]


_TASK_END: Final = '{"Event":"SparkListenerTaskEnd"'


def totals(folder: Path) -> Totals:
    """Return the sums over the applications whose event logs are in a folder."""
    found = Totals()
    for file in folder.iterdir():
        with file.open() as lines:
            for line in lines:
                if line.startswith(_TASK_END):
                    told = json.loads(line)
                    if told["Task End Reason"]["Reason"] == "Success":
                        found.add(told["Task Metrics"])
                    else:
                        found.failed_tasks += 1
    return found
