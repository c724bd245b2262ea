"""A record there and back, before librdkafka's mock brokers; and in words what fails."""

import socket
from collections.abc import Iterator

import pytest

from proxy.admin.errors import UnreachableError
from proxy.cli.kafka_options import Server
from proxy.cli.round_trip import AdvertisedBroker, RoundTrip
from proxy.demo.cluster import start_brokers
from proxy.demo.processes import ClusterReady


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterReady]:
    """Three mock brokers with one topic."""
    owner, ready = start_brokers()
    yield ready
    del owner


def trip(address: str, timeout_s: float = 300) -> RoundTrip:
    return MockTrip(Server(address, None), None, timeout_s)


class MockTrip(RoundTrip):
    """kafka-python cannot read the mock's ApiVersions reply."""

    def settings(self) -> dict[str, object]:
        return super().settings() | {"api_version": (2, 1)}


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
