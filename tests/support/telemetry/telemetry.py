"""All observers on an engine of the tests' own, and the code that runs on the event loop meanwhile."""

import gc
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from policies.api import Policy
from proxy.core.observer import Observer
from proxy.core.stats.topic_usage import TopicUsage
from proxy.telemetry.broadcast import Broadcast
from proxy.telemetry.client_activity import ClientActivity, ConnectionTimes
from proxy.telemetry.decisions import Decisions
from proxy.telemetry.history import History
from proxy.telemetry.log import LogObserver
from proxy.telemetry.metrics.metrics_observer import MetricsObserver
from proxy.telemetry.traces.exporters import make_tracer
from proxy.telemetry.traces.tracer import Tracer
from proxy.telemetry.usage_log.usage_log import UsageLogObserver
from tests.support.core.sessions import Watcher, make_engine
from tests.support.telemetry.metrics_page import FakeFactsSource

PARTS = ("metrics", "traces", "views")
"""`views`: the data of the dashboard and the admin server. The log is always there."""


class Listeners:
    """As the application puts them together; `watcher` is told of faults.

    `families` are those of the usage log; without any there is none.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        folder: Path,
        families: Sequence[str] = ("entity", "api", "instance"),
        parts: Collection[str] = PARTS,
        trace_delay_ms: int = 10,
        **options: int,
    ) -> None:
        self.threads: list[int] = []  # the ids of those that `start` has started
        book = TopicUsage() if "topic" in families else None
        self.engine = make_engine(
            policies,
            keeps_traces=bool(parts),
            meters_by_key="api" in families,
            topic_usage=book,
            **options,
        )
        folder.mkdir(exist_ok=True)
        self.watcher = Watcher()
        self.tracer = _tracer(folder, trace_delay_ms) if "traces" in parts else None
        self.metrics = MetricsObserver()
        self.usage_log: UsageLogObserver | None = None
        if families:
            self.usage_log = UsageLogObserver(
                str(folder / "usage-log"),
                "tests",
                families,
                clock=lambda: self.engine.now_ms,
                effective_quota=_unknown,
                rotate_ms=1 << 30,  # the clock stands still while the writer waits for it
                topic_usage=book,
            )
        log = LogObserver(lambda: self.engine.now_ms, self.engine.timers.arm)
        self.decisions = Decisions()
        heard: list[Observer] = [self.watcher, log]
        if self.tracer is not None:
            heard.append(self.tracer)
        if "metrics" in parts:
            heard.append(self.metrics)
        if "views" in parts:
            history = History()
            history.attach(self.engine, lambda: 0.0)
            connection_times = ConnectionTimes(lambda: self.engine.now_ms)
            heard += [self.decisions, history, ClientActivity(), connection_times]
        if self.usage_log is not None:
            heard.append(self.usage_log)
        fan = Broadcast(heard)
        self.engine.observer = fan
        self.engine.usage._on_second = fan.on_second
        if self.tracer is not None:
            self.tracer.attach(self.engine)
        if "metrics" in parts:
            self.metrics.attach(self.engine, FakeFactsSource())
        if self.usage_log is not None:
            self.usage_log.attach(self.engine)

    @property
    def busy(self) -> bool:
        """Return whether a thread has work."""
        tracer, usage_log = self.tracer, self.usage_log
        writer = None if usage_log is None else usage_log._thread
        return (tracer is not None and tracer.waiting > 0) or (
            writer is not None and writer._queued != writer._taken
        )

    def start(self) -> None:
        before = set(threading.enumerate())
        if self.tracer is not None:
            self.tracer.start()
        if self.usage_log is not None:
            self.usage_log.start()
        started = set(threading.enumerate()) - before
        self.threads = [each.ident for each in started if each.ident is not None]

    def close(self) -> None:
        if self.tracer is not None:
            self.tracer.close()
        if self.usage_log is not None:
            self.usage_log.close()


def _tracer(folder: Path, delay_ms: int) -> Tracer:
    tracer = make_tracer(
        export="file",
        file=str(folder / "spans.jsonl"),
        max_file_bytes=1 << 20,
        max_spans_per_second=100_000,
        version="1.2.3",
        environ={"OTEL_BSP_SCHEDULE_DELAY": str(delay_ms)},
    )
    assert tracer is not None
    return tracer


def _unknown(user: str, client_id: str) -> None:
    """Return None: no policy knows a limit."""


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
    """Record what runs on this thread inside the block; a garbage collection would run what others have left."""
    ran = Ran()
    gc.disable()
    sys.setprofile(ran.note)
    try:
        yield ran
    finally:
        sys.setprofile(None)
        gc.enable()
