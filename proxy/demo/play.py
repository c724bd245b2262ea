"""One run of the demo with all that it prints and writes: the scenario, the verdict, the page."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.demo.checks import judge
from proxy.demo.cluster import Sluice
from proxy.demo.processes import DemoError
from proxy.demo.report import Run, write_page
from proxy.demo.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.demo.console import Screen
    from proxy.demo.experiment import Schedule


async def play(
    schedule: Schedule,
    screen: Screen,
    sluice_of: Callable[[Path], Sluice] = Sluice,
    page: Path | None = None,
    *,
    has_habits: bool = False,
) -> int:
    """Run the demo, show it, and write its page to `page`. Return 0 when no check fails, else 1.

    With `has_habits` the second part is that of clients with habits.
    """
    began_s, began = time.monotonic(), time.strftime("%d %B %Y, %H:%M")
    run: Run | None = None
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder, screen:
        sluice = sluice_of(Path(folder))
        scenario = Scenario(screen, Path(folder), sluice, has_habits=has_habits)
        try:
            evidence = await scenario.run(schedule)
        except* DemoError as group:
            for error in group.exceptions:
                screen.note(f"The demo failed: {error}")
            if lines := sluice.last_lines():
                screen.note(lines)
        else:
            about = (
                began,
                f"{time.monotonic() - began_s:.0f} s",
                f"Sluice {version('kafka-sluice')}",
                f"Python {platform.python_version()}",
                f"{platform.system()}, {os.cpu_count()} CPUs",
            )
            run = Run(scenario.rows(), evidence, judge(evidence), scenario.state, about)
            screen.close(run.rows, evidence.comparison, run.findings)
    if run is None:
        return 1
    if page is not None:
        screen.note(_written(page, run))
    return 1 if any(finding.holds is False for finding in run.findings) else 0


def _written(page: Path, run: Run) -> str:
    try:
        write_page(page, run)
    except OSError as error:
        return f"The page of this run could not be written: {error}"
    return f"The page of this run: {page.resolve()}"
