"""The metrics page before a real promtool and a real Prometheus, and the push before a real collector (rotel)."""

import time
import urllib.request
from pathlib import Path

import pytest

from bench.harness.ports import free_ports
from policies.api import FORWARD, Hold, Peer, Reject, Throttle
from policies.decision import PolicyDecision
from policies.quota.sensors import BucketMetrics
from proxy.core.stats.histogram import bucket_of
from proxy.telemetry.facts import Facts, Feature, QuotaEntities, Reloads, read_process
from proxy.telemetry.metrics.metrics_observer import MetricsObserver
from proxy.telemetry.metrics.names import ALL
from proxy.telemetry.metrics.push import MetricPush
from tests.support.core.holding import Holding
from tests.support.core.sessions import Wire, make_engine
from tests.support.core.token_logins import Keys, bearer_tokens
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.python_clients import CLIENTS
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.sasl_service import sasl_server
from tests.support.telemetry.collectors import rotel_agent
from tests.support.telemetry.metrics_collector import Heard, attributes, listening
from tests.support.telemetry.metrics_page import FakeFactsSource, hear, page_of
from tests.support.telemetry.prometheus import check_metrics, scraping, serving
from wire.apis import ApiKey, known

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
REQUESTS = 5
HELD_MS = 300
FACTS = Facts(
    "1.2.3",
    read_process(),
    clock_drift_ms=3,
    log_suppressed={"session_closed": 2},
    audit_lost={"disk": 0, "rate": 0},
    reloads=Reloads(1, 1, last_ok=True, loaded_ms=1_700_000_000_000),
    certificates_ms={"listen": 1_900_000_000_000},
    features=[Feature("compiled_wheel", "alpha", enabled=False)],
)


class Traced(MetricsObserver):
    """Acts like a tracer that has exported everything."""

    def on_trace(self, trace) -> None:
        trace.trace_id = TRACE_ID
        super().on_trace(trace)


def lively(push: MetricPush | None = None) -> MetricsObserver:
    """Return the MetricsObserver of an engine with an event of every kind, at the present time."""
    metrics = Traced(push=push, max_quota_entities=1)
    policy = Holding(Hold(1000, "key"), *[FORWARD] * REQUESTS, Throttle(50))
    now_ms = time.time_ns() // 1_000_000
    engine = make_engine([policy], keeps_traces=True, now_ms=now_ms)
    hear(engine, metrics)
    facts_source = FakeFactsSource(FACTS, {"ANONYMOUS": 100.0})
    figures = BucketMetrics("alice", "", "request_rate", 10.0, 5.0, 20.0, 50, 0)
    facts_source.entities = [QuotaEntities("quota", [figures])]
    metrics.attach(engine, facts_source)
    for pool in (engine.request_pool, engine.reply_pool):
        pool.resize(1 << 20)
    wire = Wire(engine).client(f.heartbeat(0))
    wire.advance(HELD_MS)
    wire.wake("key")
    wire.broker(f.heartbeat_reply(0))
    for n in range(1, REQUESTS):
        wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n))
    wire.client(f.beat(REQUESTS)).broker(f.beat_reply(REQUESTS))
    engine.meters.step_us[bucket_of(70)] += 1
    metrics.on_internal_error(ValueError())
    name = engine.chain.entries[0].name
    metrics.on_policy_error(name, "on_request", ValueError())
    decision = PolicyDecision(
        name, Reject(44), Peer(1, "127.0.0.1", 50_000), "DeleteTopics", now_ms
    )
    metrics.on_policy_observed(decision)
    metrics.on_policy_refused(decision)
    removed = known(ApiKey.FETCH, 3)
    assert removed is not None
    metrics.on_removed_version(decision.peer, removed)
    Wire(engine).release()
    server, checker = sasl_server()
    server.tokens = bearer_tokens(Keys("a"), checker)
    engine.authenticate_clients(server)
    wire.advance(1000)
    return metrics


def test_promtool_finds_no_fault() -> None:
    """Every metric is on the page."""
    page = page_of(lively(MetricPush("1.2.3", interval_ms=1000)), openmetrics=False)
    checked = check_metrics(page)

    assert {metric.name for metric in ALL if f"# TYPE {metric.name} ".encode() not in page} == set()
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("openmetrics", [False, True], ids=["text", "openmetrics"])
def test_prometheus_reads_the_page(tmp_path: Path, *, openmetrics: bool) -> None:
    """In either format: values, the histograms' quantiles, and (OpenMetrics) the exemplar with its trace id."""
    metrics = lively()
    pages = {known: page_of(metrics, openmetrics=known) for known in (False, True)}
    with (
        serving(pages.__getitem__, openmetrics=openmetrics) as target,
        scraping(target, tmp_path) as prometheus,
    ):
        prometheus.await_true(lambda: bool(prometheus.value("sluice_requests_total")))

        assert prometheus.value("sluice_requests_total") == {
            "api=Heartbeat,outcome=replied": REQUESTS + 1
        }
        assert prometheus.value("sluice_user_requests_total") == {"user=ANONYMOUS": REQUESTS + 1}
        stage = 'sluice_request_stage_seconds_bucket{stage="purgatory"}'
        (median,) = prometheus.value(f"histogram_quantile(0.5, {stage})").values()
        assert (
            HELD_MS / 2000 < median < HELD_MS / 500
        )  # a bucket is twice as wide as the one before
        if openmetrics:
            prometheus.await_true(lambda: bool(prometheus.exemplars(stage)))
            (exemplar,) = prometheus.exemplars(stage)
            assert exemplar["labels"] == {"trace_id": TRACE_ID}
            assert float(str(exemplar["value"])) == pytest.approx(HELD_MS / 1000)


def test_a_collector_forwards_the_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of the page arrives at the collector after rotel."""
    heard = Heard()
    with (
        listening(heard) as behind,
        rotel_agent(tmp_path, f"http://127.0.0.1:{behind}") as endpoint,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        push = MetricPush("1.2.3", interval_ms=100_000)
        push.start()
        metrics = lively(push)
        await_that(lambda: _pushed(push, metrics, heard), "the agent's requests")
        metrics.close()

    found = heard.metrics()
    assert {metric.family for metric in ALL} == found.keys()
    (point,) = found["sluice_requests"].sum.data_points
    assert attributes(point.attributes) == {"api": "Heartbeat", "outcome": "replied"}
    assert point.as_int == REQUESTS + 1
    waits = {
        attributes(each.attributes)["stage"]: each
        for each in found["sluice_request_stage_seconds"].histogram.data_points
    }
    assert waits["purgatory"].count == 1
    assert waits["purgatory"].sum == pytest.approx(HELD_MS / 1000, rel=0.05)


def _pushed(push: MetricPush, metrics: MetricsObserver, heard: Heard) -> bool:
    """Push once more; return whether any figure has arrived."""
    push.send(metrics.collect(), metrics._engine.now_ms)
    return bool(heard.requests)


def test_prometheus_scrapes_a_running_sluice(
    kafka_one: KafkaCluster, topics_one: Topics, tmp_path: Path
) -> None:
    """Before a real broker, Prometheus has the clients' activity, and promtool finds no fault."""
    admin = f"127.0.0.1:{free_ports()}"
    variables = {"SLUICE_ADMIN_LISTEN": admin}
    with (
        SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", variables=variables) as sluice,
        scraping(admin, tmp_path) as prometheus,
    ):
        topic = topics_one.make(1)
        values = [b"%d" % n for n in range(200)]
        client = CLIENTS["kafka-python"]
        client.write(sluice.bootstrap, topic, values, 1, "all", "none")
        assert len(client.read(sluice.bootstrap, topic, 1, len(values))) == len(values)
        prometheus.await_true(
            lambda: (
                prometheus.value("sum(sluice_requests_total)")
                == prometheus.value("sum(sluice_user_requests_total)")
                != {}
                and prometheus.value("sluice_connections") == {"": 0}
            )
        )

        told = prometheus.value('sluice_requests_total{outcome="replied"}')
        stage = 'sluice_request_stage_seconds_count{stage="upstream"}'
        assert told["api=Produce,outcome=replied"] >= 1
        assert told["api=Fetch,outcome=replied"] >= 1
        assert (
            prometheus.value(stage)["api=Produce,stage=upstream"]
            == (told["api=Produce,outcome=replied"])
        )
        sent = prometheus.value("sluice_user_request_bytes_total")["user=ANONYMOUS"]
        assert sent > sum(map(len, values))
        assert prometheus.value("process_resident_memory_bytes")[""] > 20_000_000
        with urllib.request.urlopen(f"http://{admin}/metrics", timeout=60) as reply:
            checked = check_metrics(reply.read())
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
