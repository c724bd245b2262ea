"""The metrics observer as a whole: the values it keeps, and that the event loop never waits for it."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from policies.api import Hold, Peer, Reject
from policies.decision import PolicyDecision
from policies.hook_runner import HookTime
from proxy.core.stats.meters import summed
from proxy.core.stats.usage import UsageRow
from proxy.telemetry.metrics import collect, names
from proxy.telemetry.metrics.metrics_observer import FOLD_EVERY_MS, MetricsObserver
from proxy.telemetry.metrics.push import MetricPush
from proxy.telemetry.metrics.users import MAX_FOLDED
from tests.support.core.holding import HOLD, Holding
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.telemetry.metrics_page import FakeFactsSource, hear, listen, page_of, read
from wire.apis import ApiKey, known

PAGE_MOST_BYTES = 1 << 20


class Traced(MetricsObserver):
    """A metrics observer after a tracer that exports every trace."""

    def on_trace(self, trace) -> None:
        trace.trace_id = "ab" * 16
        super().on_trace(trace)


class Sink:
    """A collector that accepts everything."""

    def __init__(self) -> None:
        self.got: list[tuple[list[object], int]] = []

    def export(self, families, at_ms: int) -> bool:
        self.got.append((list(families), at_ms))
        return True

    def shutdown(self) -> None:
        pass


def rows_of(names: range, ts_ms: int) -> list[UsageRow]:
    """Return a row for each of these clients, each of a user of its own."""
    zeros = (0,) * 9
    return [UsageRow(ts_ms, f"user-{n}", f"client-{n}", 3, 3, 0, 300, *zeros) for n in names]


def test_many_client_ids_make_a_small_page() -> None:
    """The clients join the core's usage book, are counted, and leave; tests/threats has a million of them."""
    wire, metrics = listen()
    book = wire.engine.usage
    for second in range(4):
        for n in range(3000):
            usage = book.join("crowd", f"client-{second}-{n}", wire.engine.now_ms)
            usage.requests += 1
            book.leave(usage)
        wire.advance(1000)

    assert read(metrics)["sluice_user_requests_total"] == {("crowd",): 12_000}
    assert len(page_of(metrics)) < PAGE_MOST_BYTES


def test_many_rows_are_counted_in_several_turns() -> None:
    """MAX_FOLDED are counted at once, the rest by timers of the engine; a page has all of them."""
    wire, metrics = listen()
    metrics.on_second(0, rows_of(range(3 * MAX_FOLDED), 0))
    timers = [wire.engine.timers.size]
    for _ in range(2):
        wire.advance(FOLD_EVERY_MS)
        timers.append(wire.engine.timers.size)

    assert timers == [1, 1, 0]
    metrics.on_second(1000, rows_of(range(3 * MAX_FOLDED), 1000))
    assert sum(read(metrics)["sluice_user_requests_total"].values()) == 18 * MAX_FOLDED


def test_a_held_request_that_is_traced_is_an_exemplar() -> None:
    """Its trace id stands at the bucket of its wait."""
    metrics = Traced()
    engine = make_engine([Holding(HOLD, Hold(1000, "key", throttles=True))], keeps_traces=True)
    hear(engine, metrics)
    metrics.attach(engine, FakeFactsSource())
    wire = Wire(engine).client(f.heartbeat(1))
    wire.advance(300)
    wire.wake("key")
    wire.advance(40)
    wire.wake("key")
    wire.broker(f.heartbeat_reply(1))

    families = text_string_to_metric_families(page_of(metrics).decode())
    samples = [sample for family in families for sample in family.samples]
    marked = {each.labels["stage"]: each for each in samples if each.exemplar}
    assert {stage: each.labels["le"] for stage, each in marked.items()} == {
        "throttle": "0.065536",
        "purgatory": "0.524288",
    }
    labels, value, timestamp = marked["purgatory"].exemplar
    assert (labels, value, float(timestamp)) == ({"trace_id": "ab" * 16}, 0.3, 0.3)


def test_faults_are_counted() -> None:
    """They are internal errors, errors and refusals of policies, verdicts in mode `observe`, removed versions."""
    wire, metrics = listen()
    metrics.on_handshake_failed("10.0.0.9", 40000, "no shared cipher")
    metrics.on_internal_error(ValueError())
    metrics.on_policy_error("quota", "on_request", ValueError())
    metrics.on_policy_error("quota", "on_request", ValueError())
    decision = PolicyDecision("limits", HOLD, Peer(1, "10.0.0.9", 40000), "Fetch", 7)
    metrics.on_policy_observed(decision)
    for verdict in (Reject(44), Reject(44), Reject(44, close=True)):
        metrics.on_policy_refused(decision._replace(verdict=verdict))
    metrics.on_policy_refused(decision._replace(verdict=Reject(44), api_name=""))
    removed = known(ApiKey.FETCH, 3)
    assert removed is not None
    metrics.on_removed_version(decision.peer, removed)
    hook_runner = wire.engine.chain.hook_runner
    times = hook_runner.times["quota", "on_tick"] = HookTime()
    times.calls, times.took_us, times.slow = 4, 7_500, 1

    found = read(metrics)
    assert found["sluice_tls_handshakes_failed_total"] == {(): 1}
    assert found["sluice_internal_errors_total"] == {(): 1}
    assert found["sluice_policy_errors_total"] == {("on_request", "quota"): 2}
    assert found["sluice_policy_observed_total"] == {("Fetch", "limits", "hold"): 1}
    assert found["sluice_policy_refused_total"] == {
        ("Fetch", "limits", "reject"): 2,
        ("Fetch", "limits", "close"): 1,
        ("connect", "limits", "close"): 1,
    }
    assert found["sluice_removed_versions_total"] == {("Fetch", "3"): 1}
    assert found["sluice_policy_hook_calls_total"] == {("on_tick", "quota"): 4}
    assert found["sluice_policy_hook_seconds_total"] == {("on_tick", "quota"): 0.0075}
    assert found["sluice_policy_slow_hooks_total"] == {("on_tick", "quota"): 1}


def test_reading_a_page_changes_nothing() -> None:
    """Two pages of the same moment are equal."""
    wire, metrics = listen([Holding(HOLD)])
    wire.client(f.heartbeat(1))
    wire.advance(1500)

    assert page_of(metrics) == page_of(metrics)


def test_metrics_are_pushed_once_an_interval_and_at_the_end() -> None:
    """A push has the engine's time, and pushes are counted on the page; without push there are no metrics of it."""
    sink = Sink()
    push = MetricPush("1.2.3", lambda _: sink, interval_ms=10_000)
    push.start()
    metrics = MetricsObserver(push=push)
    engine = make_engine()
    hear(engine, metrics)
    metrics.attach(engine, FakeFactsSource())
    wire = Wire(engine)
    for _ in range(11):
        wire.advance(1000)
    metrics.close()

    assert [at for _, at in sink.got][-1] == 11_000
    assert 1 <= len(sink.got) <= 2  # the thread may not have run before the close
    assert sum(read(metrics)["sluice_metrics_pushes_total"].values()) == 2
    assert len(sink.got[-1][0]) == len(list(metrics.collect()))

    _, metrics = listen()
    metrics.close()

    assert "sluice_metrics_pushes_total" not in read(metrics)


def test_meters_are_summed_up_by_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """`collect` runs on the event loop and only copies the list of meters; reading the families sums them up."""
    sums: list[int] = []

    def noted(meters):
        sums.append(1)
        return summed(meters)

    monkeypatch.setattr(collect, "summed", noted)
    wire, metrics = listen(meters_by_key=True)
    book = wire.engine.meters
    for n in range(100):
        book.find(0, "Produce", "ada", f"client-{n}").upstream[80] += 1
    families = metrics.collect()
    assert sums == []
    (requests,) = (family for family in families if family.metric is names.REQUESTS)
    assert sums == [1]
    assert [point.value for point in requests.points] == [100]


def test_a_key_that_is_retired_during_a_read_is_counted_once() -> None:
    """Keys may be retired after `collect` on the event loop and before the sums are made elsewhere."""
    wire, metrics = listen(meters_by_key=True)
    book = wire.engine.meters
    meters = [book.find(0, "Produce", "ada", f"client-{n}") for n in range(4)]
    for meter in meters:
        meter.upstream[80] += 1
    book.retire(meters[0])
    families = metrics.collect()
    book.retire(meters[1])
    book.retire(meters[2])

    (requests,) = (family for family in families if family.metric is names.REQUESTS)
    assert [point.value for point in requests.points] == [4]
    assert read(metrics)["sluice_requests_total"] == {("Produce", "replied"): 4}


def test_the_series_of_a_policy_end_when_a_reload_has_removed_it():
    """Else each name that an entry ever had would stay on the page."""
    wire, metrics = listen([Holding()])
    (entry,) = wire.engine.chain.entries
    decision = PolicyDecision(entry.name, Reject(44), Peer(1, "h", 1, None), "Produce", 0)
    for each in (decision, decision._replace(policy="gone")):
        metrics.on_policy_refused(each)
        metrics.on_policy_observed(each)
        metrics.on_policy_error(each.policy, "close", ValueError())
    wire.advance(2000)
    found = read(metrics)
    for name in ("refused", "observed", "errors"):
        series = found[f"sluice_policy_{name}_total"]
        assert {"gone" in labels for labels in series} == {False}
