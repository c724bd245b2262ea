"""Everything that listens, on an engine of the tests' own, and what runs on the loop meanwhile."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from proxy.telemetry.decisions import Decisions
from proxy.telemetry.fan import Fan
from proxy.telemetry.log import LogObserver
from proxy.telemetry.metrics.observer import Metrics
from proxy.telemetry.principals import Principals
from proxy.telemetry.records.records import Records
from proxy.telemetry.traces.choice import make_tracer
from tests.support.metrics_page import FakeInside
from tests.support.sessions import Watcher, make_engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from policies.api import Policy


class Listeners:
    """As the application puts them together; `watcher` is told of what goes wrong.

    `families` are those of the usage records; without any there are none.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        folder: Path,
        families: Sequence[str] = ("entity", "api", "instance"),
        **options: int,
    ) -> None:
        self.engine = make_engine(
            policies, keeps_trails=True, meters_by_key="api" in families, **options
        )
        folder.mkdir(exist_ok=True)
        self.watcher = Watcher()
        tracer = make_tracer(
            export="file",
            file=str(folder / "spans.jsonl"),
            file_most_bytes=1 << 20,
            spans_per_second=100_000,
            version="1.2.3",
            environ={"OTEL_BSP_SCHEDULE_DELAY": "10"},
        )
        assert tracer is not None
        self.tracer = tracer
        self.metrics = Metrics()
        self.records: Records | None = None
        if families:
            self.records = Records(
                str(folder / "records"),
                "tests",
                families,
                clock=lambda: self.engine.now_ms,
                in_force=_unknown,
            )
        log = LogObserver(lambda: self.engine.now_ms, self.engine.timers.arm)
        self.decisions = Decisions()
        heard = [self.watcher, log, tracer, self.metrics, self.decisions, Principals()]
        fan = Fan([*heard, *([self.records] if self.records else [])])
        self.engine.observer = fan
        self.engine.usage._on_second = fan.on_second
        tracer.attach(self.engine)
        self.metrics.attach(self.engine, FakeInside())
        if self.records is not None:
            self.records.attach(self.engine)

    def start(self) -> None:
        self.tracer.start()
        if self.records is not None:
            self.records.start()

    def close(self) -> None:
        self.tracer.close()
        if self.records is not None:
            self.records.close()


def _unknown(user: str, client_id: str) -> None:
    """No policy knows a limit."""


class Ran:
    """Modules whose Python functions ran, and the names of the C functions that were called."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.builtins: set[str] = set()

    def packages(self) -> set[str]:
        return {module.partition(".")[0] for module in self.modules}

    def note(self, frame: FrameType, event: str, called: object) -> None:
        if event == "call":
            self.modules.add(frame.f_globals.get("__name__", "?"))
        elif event == "c_call":
            owner = getattr(called, "__self__", None)
            module = getattr(called, "__module__", None) or type(owner).__module__
            self.builtins.add(f"{module}.{getattr(called, '__qualname__', called)}")


@contextmanager
def watching() -> Iterator[Ran]:
    """What runs on this thread inside the block."""
    ran = Ran()
    sys.setprofile(ran.note)
    try:
        yield ran
    finally:
        sys.setprofile(None)
