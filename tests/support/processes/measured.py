"""Figures of the threat tests. `make threats` shows them, and plays the long forms. Work is counted, not timed."""

import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from prometheus_client.parser import text_string_to_metric_families as read_metrics

LONG: Final = "SECONDS" in os.environ


def scaled(usual: int, long: int) -> int:
    """Return the size of a load: `long` under `make threats`, else `usual`."""
    return long if LONG else usual


def tell(threat: str, figure: str) -> None:
    """Show a measured figure."""
    print(f"\n{threat}: {figure}")  # noqa: T201 - shown by `make threats`


class Work:
    """The number of lines of Python that were executed."""

    def __init__(self) -> None:
        self.lines = 0


@contextmanager
def counted_work() -> Iterator[Work]:
    """Count the lines of Python that this thread executes while the block runs: the same number on any machine."""
    work = Work()

    def trace(frame: FrameType, event: str, _: object):
        if event == "line":
            work.lines += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield work
    finally:
        sys.settrace(before)


def metrics_of(admin: str, **labels: str) -> dict[str, float]:
    """Return the sum of each family's samples, of those with these labels, on the metrics page of HOST:PORT."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=120) as reply:
        page = reply.read().decode()
    found: dict[str, float] = {}
    for family in read_metrics(page):
        for sample in family.samples:
            if labels.items() <= sample.labels.items():
                found[sample.name] = found.get(sample.name, 0) + sample.value
    return found
