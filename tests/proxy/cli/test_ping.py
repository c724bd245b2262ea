"""`sluice ping` as it is typed, and its record there and back, before librdkafka's mock brokers."""

import socket
from collections.abc import Iterator

import pytest

from bench.harness.ports import free_ports
from proxy.admin.errors import UnreachableError
from proxy.cli.kafka_options import Server
from proxy.cli.ping import AdvertisedBroker, OutOfTimeError, RoundTrip
from proxy.demo.cluster import start_brokers
from proxy.demo.processes import ClusterReady
from tests.support.processes.command_line import invoke


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterReady]:
    """Three mock brokers with one topic."""
    owner, ready = start_brokers()
    yield ready
    del owner


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python cannot read the mock's ApiVersions reply."""
    settings = RoundTrip.settings
    monkeypatch.setattr(
        RoundTrip, "settings", lambda trip: settings(trip) | {"api_version": (2, 1)}
    )


def test_every_broker_and_the_record_are_reported(cluster: ClusterReady) -> None:
    """The exit code is 0 if all brokers are reachable and the record came back."""
    result = invoke("ping", "--bootstrap", cluster.brokers[2], "--topic", cluster.topic)

    assert result.exit_code == 0, result.output
    for node_id, address in cluster.brokers.items():
        assert f"broker {node_id} at {address}: reachable\n" in result.stdout
    assert f"{cluster.topic}: a record was written to partition " in result.stdout


def test_one_unreachable_broker_fails_the_command(
    cluster: ClusterReady, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are tried all the same, and so is the record."""
    missing = free_ports()
    listed = RoundTrip.brokers
    more = [AdvertisedBroker(9, "127.0.0.1", missing)]
    monkeypatch.setattr(RoundTrip, "brokers", lambda trip: more + listed(trip))

    result = invoke("ping", "--bootstrap", cluster.brokers[1], "--topic", cluster.topic)

    assert result.exit_code == 1
    assert f"broker 9 at 127.0.0.1:{missing}: Nothing answers" in result.stderr
    assert result.stdout.count(": reachable\n") == len(cluster.brokers)
    assert "a record was written" in result.stdout


def test_the_end_of_the_time_is_said_once(
    cluster: ClusterReady, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many brokers are left to try."""
    many = [AdvertisedBroker(node, "127.0.0.1", 1) for node in range(1000)]

    def is_over(_trip: RoundTrip, _broker: AdvertisedBroker) -> None:
        raise OutOfTimeError("over")

    monkeypatch.setattr(RoundTrip, "brokers", lambda _trip: many)
    monkeypatch.setattr(RoundTrip, "try_broker", is_over)

    result = invoke("ping", "--bootstrap", cluster.brokers[1], "--topic", cluster.topic)

    assert (result.exit_code, result.stderr) == (1, "over\n")


def test_a_bootstrap_that_nothing_listens_at_is_one_sentence() -> None:
    """There is no traceback, and the exit code is 1."""
    result = invoke("ping", "--bootstrap", f"127.0.0.1:{free_ports()}", "--topic", "orders")

    assert result.exit_code == 1
    assert result.stderr.startswith("Nothing answers at 127.0.0.1:")
    assert len(result.stderr.splitlines()) == 1


def trip(address: str, timeout_s: float = 300) -> RoundTrip:
    return RoundTrip(Server(address, None), None, timeout_s)


def test_a_record_is_read_back_by_way_of_the_advertised_addresses(cluster: ClusterReady) -> None:
    """Each time it is a record of its own, whichever partition it goes to."""
    tried = trip(cluster.brokers[1])

    brokers = tried.brokers()
    for broker in brokers:
        tried.try_broker(broker)
    found = [tried.write_and_read(cluster.topic) for _ in range(3)]

    assert {each.node_id: each.address for each in brokers} == cluster.brokers
    assert len({(each.partition, each.offset) for each in found}) == len(found)
    assert all(each.seconds >= 0 for each in found)


def test_the_address_of_a_broker_has_brackets_where_it_needs_them() -> None:
    """IPv6 addresses have colons of their own."""
    assert AdvertisedBroker(1, "fd00::3", 9092).address == "[fd00::3]:9092"
    assert AdvertisedBroker(1, "kafka-1", 9092).address == "kafka-1:9092"


def test_time_that_is_over_ends_everything() -> None:
    """No step begins after the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        with pytest.raises(UnreachableError, match=r"no answer in time|did not serve everything"):
            trip(address, 0.2).brokers()
        with pytest.raises(UnreachableError, match="did not serve everything in time"):
            trip(address, 0).brokers()
