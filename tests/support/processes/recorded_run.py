"""A run of a real Sluice with a usage log, which is closed when the run is over."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes.sluice_process import SluiceProcess
from tests.support.telemetry.usage_log import shown

FAMILIES = ("entity", "api", "instance", "topic", "capture")


@dataclass(frozen=True)
class RecordedRun:
    """A running Sluice and the folder of its usage log, which has all its rows when the run is over."""

    sluice: SluiceProcess
    usage_log: Path

    def rows(self, family: str) -> list[dict[str, Any]]:
        """Return the rows of a family in the order in which they were written."""
        return shown(self.usage_log, family)


@contextmanager
def recorded_run(
    bootstrap: str,
    folder: Path,
    *,
    families: Sequence[str] = FAMILIES,
    quota: dict[str, object] | None = None,
    instance: str = "pod-1",
    usage_log: Path | None = None,
    **variables: str,
) -> Iterator[RecordedRun]:
    """Run Sluice before `bootstrap`, with the quota policy if `quota` has its settings.

    The usage log is in `folder`, or in `usage_log`, which several runs may share. `variables` are further ones of
    Sluice's environment.
    """
    directory = usage_log or folder / "usage-log"
    settings = {
        "SLUICE_USAGE_LOG_DIRECTORY": str(directory),
        "SLUICE_USAGE_LOG_FAMILIES": ",".join(families),
        "SLUICE_USAGE_LOG_INSTANCE": instance,
        "SLUICE_USAGE_LOG_ROTATE_MS": "1000",
    }
    if quota is not None:
        settings["SLUICE_POLICIES"] = json.dumps([{"use": "quota", "config": quota}])
    with SluiceProcess(bootstrap, folder / "sluice", variables=settings | variables) as sluice:
        yield RecordedRun(sluice, directory)
