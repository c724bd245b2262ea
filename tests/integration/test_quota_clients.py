"""Real clients under a quota: each gets its limit, none times
out, reconnects or loses its group; brokers' quotas join.

All clients run at once, for twenty seconds, on one broker, through a tap that reads Sluice's replies.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.kafka.franz_go import FranzUnavailableError, franz_program
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.quotas.quota_joined import LIMITS, Joined, measure_joined
from tests.support.quotas.quota_rows import BURST_SECONDS
from tests.support.quotas.quota_together import (
    FRANZ,
    GROUP_LIMIT,
    GROUPS,
    JAVA,
    PRODUCER_LIMIT,
    PRODUCERS,
    PYTHON,
    Together,
    measure_together,
)

pytestmark = pytest.mark.slow

WARM_SECONDS = 6.0
WINDOW_SECONDS = 14.0
STALE_SECONDS = 0.25
"""The proxy reads its clock once a step: a request may count as this much older than it is."""
JOIN_GROUP, HEARTBEAT, GROUP_HEARTBEAT = 11, 12, 68
EVERYBODY = (*PRODUCERS, *GROUPS)


@pytest.fixture(scope="module")
def measured(
    kafka_sasl: KafkaCluster, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Together, Joined, str]:
    """The results, and the reason if franz-go is not among the clients."""
    folder = tmp_path_factory.mktemp("clients")
    program, reason = None, ""
    try:
        program = franz_program()
    except FranzUnavailableError as error:
        reason = str(error)
    with ThreadPoolExecutor(1) as pool:
        seconds = WARM_SECONDS + WINDOW_SECONDS
        joined = pool.submit(measure_joined, kafka_sasl, folder / "joined", seconds)
        together = measure_together(kafka_sasl, java, program, folder, WARM_SECONDS, WINDOW_SECONDS)
        return together, joined.result(), reason


@pytest.fixture
def together(request: pytest.FixtureRequest, measured: tuple[Together, Joined, str]) -> Together:
    """The clients' part of the results."""
    callspec = getattr(request.node, "callspec", None)
    if measured[2] and callspec is not None and FRANZ in callspec.params.values():
        pytest.skip(measured[2])
    return measured[0]


@pytest.mark.parametrize("client", EVERYBODY)
def test_a_client_gets_its_limit(client: str, together: Together) -> None:
    """No more requests pass than the limit and one burst, whether or not it honours throttles.

    That it gets no less is judged in `test_quota_rates`, beside the same clients without a quota.
    """
    limit = GROUP_LIMIT if client in GROUPS else PRODUCER_LIMIT
    count, seconds = together.passed(client)

    assert count <= limit * (seconds + BURST_SECONDS + STALE_SECONDS) + 1


@pytest.mark.parametrize("client", EVERYBODY)
def test_no_request_times_out_and_no_client_reconnects(client: str, together: Together) -> None:
    """Each request is answered on its own connection, and the client reports no error."""
    said = together.told[client].errors if client in together.told else []
    said += [error for member in together.members.get(client, []) for error in member.errors]

    assert not said, said
    assert not together.came_or_went(client)


@pytest.mark.parametrize("client", [PYTHON, JAVA])
def test_a_clients_own_metric_agrees(client: str, together: Together) -> None:
    """Average and maximum of its throttle-time metric are those of Sluice's replies."""
    written = together.throttle_ms(client)
    told = together.told[client]

    assert told.throttle_max_ms == max(written)
    # It has the replies to its sign-ons in its average too, which carry none.
    assert told.throttle_avg_ms == pytest.approx(sum(written) / len(written), rel=0.05)


@pytest.mark.parametrize("client", [client for client in PRODUCERS if client not in {PYTHON, JAVA}])
def test_a_client_reports_the_longest_throttle(client: str, together: Together) -> None:
    """Both librdkafka and franz-go report each throttle; the longest is the longest in Sluice's replies."""
    assert (together.told[client].throttle_max_ms or 0) == max(together.throttle_ms(client))


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_keeps_its_members(group: str, together: Together) -> None:
    """At 10 requests a second for both members no heartbeat is
    refused, no member joins again, and all records are read.
    """
    exchanges = [
        exchange
        for talk in together.talks[group]
        for exchange in talk.exchanges
        if together.start <= exchange.asked <= together.stop
    ]
    heartbeats = [each for each in exchanges if each.api_key in {HEARTBEAT, GROUP_HEARTBEAT}]
    open_at_once = sum(
        talk.began < together.start and (talk.ended is None or talk.ended > together.stop)
        for talk in together.talks[group]
    )

    assert open_at_once <= 5
    assert heartbeats
    assert not [each for each in heartbeats if each.error_code]
    assert not [each for each in exchanges if each.api_key == JOIN_GROUP]
    for member in together.members[group]:
        assert member.consumed


@pytest.mark.parametrize("user", LIMITS)
def test_the_brokers_quota_and_sluices_are_joined(
    user: str, measured: tuple[Together, Joined, str]
) -> None:
    """A reply has the longer of both delays, never their sum; no more requests pass than by Sluice's limit."""
    joined = measured[1]
    tally, theirs = joined.tallies[user], joined.broker_ms[user]
    ours, broker = LIMITS[user]
    seconds = WARM_SECONDS + WINDOW_SECONDS

    assert not tally.problems, tally.problems
    assert tally.most_within(seconds) <= ours * (seconds + BURST_SECONDS + STALE_SECONDS) + 1
    for told_ms, their_ms in zip(tally.throttle_ms, theirs, strict=False):
        assert their_ms <= told_ms <= max(their_ms, 1000 / ours + 2)
    assert any(tally.throttle_ms)
    if broker <= ours:
        assert any(theirs)
    if broker == ours:
        both = [pair for pair in zip(tally.throttle_ms, theirs, strict=False) if all(pair)]
        assert both, "never throttled by both at once"
