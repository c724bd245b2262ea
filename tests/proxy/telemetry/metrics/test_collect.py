"""The families read from a running engine: every value compared with what was done to it."""

import pytest

from policies.api import FORWARD, Reject, Respond, Throttle
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.telemetry.facts import Facts, Feature, Reloads
from tests.support.core.holding import HOLD, Holding
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire
from tests.support.core.token_logins import Keys, bearer_tokens
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.waiting import FETCH_MS, WAIT_MS, empty, fetch_waiting
from tests.support.shell.sasl_service import sasl_server
from tests.support.telemetry.metrics_page import PROCESS, FakeFactsSource, listen, read
from wire.errors import ErrorCode

NONE = ()
ASK_US = 3000
AUTHENTICATION_FAILED = 58


def took(wire: Wire, us: int) -> None:
    """Let so many microseconds pass."""
    now_us = wire.engine.now_us + us
    wire.engine.advance(now_us // 1000, now_us)


def test_requests_are_counted_by_api_and_outcome() -> None:
    """The outcomes are: replied, no reply expected, answered by a policy, answered at the deadline, cut off."""
    verdicts = {2: Reject(ErrorCode.POLICY_VIOLATION), 3: Respond(b"\x00\x00")}
    policy = Recorder(lambda request: verdicts.get(request.exchange_id, FORWARD))
    wire, metrics = listen([policy])
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.client(f.heartbeat(2) + f.heartbeat(3))
    wire.client(f.produce(4, acks=0))
    wire.client(fetch_waiting(5)).advance(FETCH_MS)
    wire.client(f.produce(6, acks=1))
    wire.release()

    assert read(metrics)["sluice_requests_total"] == {
        ("Heartbeat", "replied"): 1,
        ("Heartbeat", "answered"): 2,
        ("Produce", "no_reply"): 1,
        ("Fetch", "expired"): 1,
        ("Produce", "disconnected"): 1,
    }


def test_the_brokers_time_is_from_the_requests_last_byte_to_the_replys() -> None:
    """A reply after 3 ms is counted between 2.048 and 4.096 ms; the sum is the middle of a bucket of 9 %."""
    wire, metrics = listen()
    wire.client(f.heartbeat(1))
    took(wire, ASK_US)
    wire.broker(f.heartbeat_reply(1))

    found = read(metrics)
    buckets = found["sluice_request_stage_seconds_bucket"]
    assert buckets["Heartbeat", "0.002048", "upstream"] == 0
    assert buckets["Heartbeat", "0.004096", "upstream"] == 1
    assert found["sluice_request_stage_seconds_sum"]["Heartbeat", "upstream"] == pytest.approx(
        ASK_US / 1e6, rel=0.05
    )


def test_a_held_request_is_counted_under_purgatory() -> None:
    """Its wait is counted while it lasts, and its end has a reason."""
    wire, metrics = listen([Holding(HOLD)])
    wire.client(f.heartbeat(1))
    wire.advance(300)
    during = read(metrics)
    wire.wake("key")
    wire.broker(f.heartbeat_reply(1))
    after = read(metrics)

    assert during["sluice_purgatory_delayed_operations"]["hold",] == 1
    assert during["sluice_purgatory_size"]["hold",] == 1
    assert during["sluice_purgatory_oldest_seconds"]["hold",] == pytest.approx(0.3)
    assert during["sluice_connections_muted"]["held",] == 1
    assert during["sluice_timer_entries"][NONE] >= 1
    assert after["sluice_purgatory_delayed_operations"]["hold",] == 0
    assert after["sluice_purgatory_oldest_seconds"]["hold",] == 0
    assert after["sluice_purgatory_completions_total"] == {
        ("condition",): 1,
        ("expired",): 0,
        ("drained",): 0,
        ("client_gone",): 0,
        ("broker_gone",): 0,
        ("closed",): 0,
    }
    assert after["sluice_request_stage_seconds_count"]["Heartbeat", "purgatory"] == 1
    assert after["sluice_purgatory_seconds_count"] == {("Heartbeat", "condition"): 1}
    assert after["sluice_purgatory_seconds_sum"]["Heartbeat", "condition"] == pytest.approx(
        0.3, rel=0.05
    )


def test_requests_that_wait_at_the_broker_are_counted_exactly() -> None:
    """They are acks=all produces and fetches with a wait; each counts until its reply."""
    wire, metrics = listen()
    wire.client(fetch_waiting(1) + f.produce(2, acks=-1) + f.produce(3, acks=-1))
    wire.client(f.produce(4, acks=1) + f.heartbeat(5))
    wire.advance(200)
    found = read(metrics)

    expected = {("hold",): 0, ("produce",): 2, ("fetch",): 1}
    assert found["sluice_purgatory_delayed_operations"] == expected
    assert found["sluice_purgatory_size"] == expected
    assert found["sluice_purgatory_oldest_seconds"]["produce",] == pytest.approx(0.2)
    wire.broker(empty(1) + f.produce_reply(2))
    expected = {("hold",): 0, ("produce",): 1, ("fetch",): 0}
    assert read(metrics)["sluice_purgatory_delayed_operations"] == expected


def test_a_reply_in_the_brokers_place_is_counted_with_its_wait() -> None:
    """Expirations are counted by kind; a drain answers before the deadlines."""
    wire, metrics = listen()
    wire.client(f.produce(1, acks=-1)).advance(WAIT_MS)
    wire.client(fetch_waiting(2)).advance(FETCH_MS)

    expected = {("Produce",): 1, ("Fetch",): 1}
    found = read(metrics)
    assert found["sluice_expirations_total"] == expected
    assert found["sluice_purgatory_seconds_count"] == {
        ("Produce", "expired"): 1,
        ("Fetch", "expired"): 1,
    }
    waited_s = found["sluice_purgatory_seconds_sum"]["Produce", "expired"]
    assert waited_s == pytest.approx(WAIT_MS / 1000, rel=0.05)

    wire, metrics = listen()
    wire.client(fetch_waiting(1)).advance(100)
    wire.engine.drain()

    assert read(metrics)["sluice_purgatory_seconds_count"] == {("Fetch", "drained"): 1}


def test_a_throttled_connection_is_muted_and_its_user_throttled() -> None:
    """It is counted while it is muted, also by a mute that is deferred; the row of its second has the time."""
    wire, metrics = listen([Recorder(lambda _: Throttle(400))])
    wire.client(f.beat(1)).broker(f.beat_reply(1))
    assert read(metrics)["sluice_connections_muted"]["throttled",] == 1
    wire.advance(1000)

    found = read(metrics)
    assert found["sluice_connections_muted"]["throttled",] == 0
    assert found["sluice_user_throttled_requests_total"] == {("ANONYMOUS",): 1}
    assert found["sluice_user_throttle_seconds_total"] == {("ANONYMOUS",): 0.4}

    wire, metrics = listen([Recorder(lambda request: Throttle(400 * (request.correlation_id > 1)))])
    wire.engine.try_expect_early = lambda _: True
    wire.client(f.beat(1)).client(f.beat(2))
    assert wire.session.client.muted == 0
    assert read(metrics)["sluice_connections_muted"]["throttled",] == 1
    wire.advance(400)
    assert read(metrics)["sluice_connections_muted"]["throttled",] == 0


def test_users_are_shown_with_their_use_and_their_limit() -> None:
    """Requests, bytes and the last second's rate by user, and the limit if a quota has one; `other` has none."""
    facts_source = FakeFactsSource(quotas={"ANONYMOUS": 12.5})
    wire, metrics = listen(facts_source=facts_source)
    for n in range(7):
        wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n))
    wire.advance(1000)

    found = read(metrics)
    user = ("ANONYMOUS",)
    assert found["sluice_user_requests_total"] == {user: 7}
    assert found["sluice_user_requests_per_second"] == {user: 7}
    assert found["sluice_user_quota_requests_per_second"] == {user: 12.5}
    assert found["sluice_user_request_bytes_total"] == {user: 7 * len(f.heartbeat(1))}
    assert found["sluice_user_response_bytes_total"] == {user: 7 * len(f.heartbeat_reply(1))}

    wire, metrics = listen(max_users=0, facts_source=FakeFactsSource(quotas={"other": 1.0}))
    wire.client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    wire.advance(1000)

    found = read(metrics)
    assert found["sluice_user_requests_total"] == {("other",): 1}
    assert "sluice_user_quota_requests_per_second" not in found


def test_open_and_closed_connections_are_counted() -> None:
    """By close reason; clients in TLS handshakes are among the unauthenticated, as for the limit."""
    wire, metrics = listen()
    Wire(wire.engine)
    wire.session.end(CloseReason.BROKER_RESET, "", wire.now_ms)
    wire.release()

    found = read(metrics)
    assert found["sluice_connections"] == {NONE: 1}
    assert found["sluice_connections_unauthenticated"] == {NONE: 1}
    assert found["sluice_connections_opened_total"] == {NONE: 2}
    assert found["sluice_connections_closed_total"] == {("broker_reset",): 1}

    wire, metrics = listen()
    wire.engine.connections.join_handshake("10.0.0.1")
    assert read(metrics)["sluice_connections_unauthenticated"] == {NONE: 2}
    wire.client(f.heartbeat(1))
    wire.engine.connections.leave_handshake("10.0.0.1")
    assert read(metrics)["sluice_connections_unauthenticated"] == {NONE: 0}


def test_a_failure_to_dial_a_broker_is_counted() -> None:
    """Each such close reason is counted as a failure to dial, and no other."""
    wire, metrics = listen()
    assert set(read(metrics)["sluice_upstream_dial_failures_total"].values()) == {0}
    for reason in CloseReason:
        each = Wire(wire.engine)
        each.session.end(reason, "", wire.now_ms)
        each.release()

    assert read(metrics)["sluice_upstream_dial_failures_total"] == {
        ("upstream_refused",): 1,
        ("upstream_dial_timeout",): 1,
        ("broker_tls",): 1,
        ("upstream_authentication_failed",): 1,
        ("unknown_node",): 1,
    }


def test_a_login_that_the_broker_refuses_is_counted() -> None:
    """A wrong password and an unknown mechanism are refusals; a successful login and the next request are not."""
    wire, metrics = listen()
    assert read(metrics)["sluice_authentication_failures_total"] == {NONE: 0}
    wire.client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
    wire.client(sasl.authenticate(2, sasl.plain("alice", "wrong")))
    wire.broker(sasl.authenticate_reply(2, error_code=AUTHENTICATION_FAILED))
    unknown = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    other = (
        Wire(wire.engine).client(sasl.handshake(1, "X")).broker(sasl.handshake_reply(1, unknown))
    )
    good = Wire(wire.engine).client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
    for n in (2, 3):
        good.client(sasl.authenticate(n, sasl.plain("alice", "right")))
        good.broker(sasl.authenticate_reply(n))
        good.client(sasl.handshake(n + 10, "PLAIN")).broker(sasl.handshake_reply(n + 10))

    assert not other.session.ended
    assert read(metrics)["sluice_authentication_failures_total"] == {NONE: 2}


def test_the_keys_for_tokens_have_a_time_and_failures() -> None:
    """An alert tells of old keys before they are used no more. Without a check of tokens there are no series."""
    wire, metrics = listen()
    assert "sluice_token_keys_failures_total" not in read(metrics)
    server, checker = sasl_server()
    keys = Keys("a")
    keys.loaded_ms, keys.failures = 1_700_000_000_500, 3
    server.tokens = bearer_tokens(keys, checker)
    wire.engine.authenticate_clients(server)
    found = read(metrics)
    assert found["sluice_token_keys_loaded_timestamp_seconds"] == {NONE: 1_700_000_000.5}
    assert found["sluice_token_keys_failures_total"] == {NONE: 3}


def test_every_reason_to_mute_has_a_name() -> None:
    """There is a series for each, also while no client is muted; a connection may have several."""
    wire, metrics = listen()
    reasons = [name.lower() for name in vars(Mute) if not name.startswith("_")]
    before = read(metrics)["sluice_connections_muted"]
    assert before == {(reason,): 0 for reason in reasons}
    wire.session.client.mute(Mute.BACKPRESSURE)
    wire.session.client.mute(Mute.IN_FLIGHT)

    after = read(metrics)["sluice_connections_muted"]
    assert {key for key, count in after.items() if count} == {("backpressure",), ("in_flight",)}


def test_nodes_outside_the_range_are_counted_once_each() -> None:
    """Repeated advertisements of one node count once."""
    wire, metrics = listen()
    for n in range(3):
        brokers = [(0, "kafka-0", 9092), (7, "kafka-7", 9092)]
        wire.client(f.metadata_request(n)).broker(f.metadata_reply(n, brokers))

    assert read(metrics)["sluice_unmapped_nodes_total"] == {NONE: 1}


def test_the_facts_of_the_application_are_shown() -> None:
    """They are drops, suppressed lines, reloads, features, build and process; none of reloads before the first."""
    facts = Facts(
        "1.2.3",
        PROCESS,
        clock_drift_ms=-1500,
        draining=True,
        spans_dropped=3,
        usage_rows_dropped=4,
        log_suppressed={"expired": 5},
        log_lines_lost=9,
        audit_lost={"disk": 6, "rate": 0},
        reloads=Reloads(2, 1, last_ok=False, loaded_ms=1_700_000_000_500),
        features=[Feature("compiled_wheel", "alpha", enabled=True)],
        certificates_ms={"listen": 1_900_000_000_500},
    )
    _, metrics = listen(facts_source=FakeFactsSource(facts))
    found = read(metrics)

    assert found["sluice_clock_drift_seconds"] == {NONE: -1.5}
    assert found["sluice_draining"] == {NONE: 1}
    assert found["sluice_spans_dropped_total"] == {NONE: 3}
    assert found["sluice_usage_log_rows_dropped_total"] == {NONE: 4}
    assert found["sluice_log_lines_suppressed_total"] == {("expired",): 5}
    assert found["sluice_log_lines_lost_total"] == {(): 9}
    assert found["sluice_audit_lines_lost_total"] == {("disk",): 6, ("rate",): 0}
    assert found["sluice_config_reloads_total"] == {("success",): 2, ("failure",): 1}
    assert found["sluice_config_last_reload_successful"] == {NONE: 0}
    assert found["sluice_config_last_reload_timestamp_seconds"] == {NONE: 1_700_000_000.5}
    end = found["sluice_certificate_expiry_timestamp_seconds"]
    assert end == {("listen",): 1_900_000_000.5}
    assert found["sluice_feature_enabled"] == {("compiled_wheel", "alpha"): 1}
    assert [labels[1] for labels in found["sluice_build_info"]] == ["1.2.3"]
    assert found["process_resident_memory_bytes"] == {NONE: PROCESS.resident_bytes}
    assert found["process_cpu_seconds_total"] == {NONE: PROCESS.cpu_s}
    assert found["process_open_fds"] == {NONE: PROCESS.open_fds}
    assert found["process_max_fds"] == {NONE: PROCESS.max_fds}
    assert found["process_start_time_seconds"] == {NONE: PROCESS.started_s}

    _, metrics = listen()
    found = read(metrics)

    assert "sluice_config_last_reload_successful" not in found
    assert "sluice_config_last_reload_timestamp_seconds" not in found


def test_the_steps_of_the_event_loop_are_shown() -> None:
    """They are Sluice's own time, as the event loop measured it, and its longest stall."""
    wire, metrics = listen()
    wire.engine.meters.step_us[8 * 7] += 3  # at most 128 µs
    wire.engine.meters.away_us[8 * 7] += 4

    for name, count in (("step", 3), ("pause", 4)):
        buckets = read(metrics)[f"sluice_event_loop_{name}_seconds_bucket"]
        assert (buckets["6.4e-05",], buckets["0.000128",]) == (0, count)
