"""Clients are offered what the brokers offer, except named versions; what a broker refuses, Sluice does not hide."""

import json
import re
import socket
import struct
from functools import partial
from pathlib import Path
from typing import Final

from bench.harness.ports import free_ports
from tests.support.kafka.java import API_VERSIONS_COMMAND, Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_jars import KAFKA_RELEASE
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.processes.measured import metrics_of
from tests.support.processes.sluice_process import SluiceProcess
from wire.apis import key_named

NARROWED: Final = {"SaslHandshake": (1, 1)}
"""What Sluice offers of it at most: the reason stands in `wire.apis`."""
AMONG_BROKERS: Final = {
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
}
"""On the brokers' listener, yet only brokers use them."""
Ranges = dict[str, tuple[int, int]]


def offered(java: Java, bootstrap: str) -> dict[int, Ranges]:
    """Return what Kafka's own tool is told, by node id."""
    said = java.run_tool(API_VERSIONS_COMMAND, "--bootstrap-server", bootstrap)
    found: dict[int, Ranges] = {}
    for node_id, listed in re.findall(
        r"\(id: (\d+) rack.*?-> \((.*?)^\)", said, re.DOTALL | re.MULTILINE
    ):
        ranges = re.findall(r"(\w+)\(\d+\): (\d+)(?: to (\d+))? \[", listed)
        found[int(node_id)] = {name: (int(low), int(high or low)) for name, low, high in ranges}
    return found


def narrowed(ranges: Ranges) -> Ranges:
    """Return a broker's ranges as a client of Sluice must see them."""
    return {
        name: (max(low, NARROWED[name][0]), min(high, NARROWED[name][1]))
        if name in NARROWED
        else (low, high)
        for name, (low, high) in ranges.items()
        if name not in AMONG_BROKERS
    }


def test_clients_are_offered_all_that_the_brokers_offer_except_named_versions(
    java: Java, kafka_three: KafkaCluster, sluice_three: SluiceProcess
) -> None:
    """Kafka's own tool reaches each broker through Sluice, and sees the ranges that it sees without."""
    direct = offered(java, kafka_three.bootstrap)
    assert sorted(direct) == [1, 2, 3]
    assert {"Produce", "Fetch", "Metadata", "DescribeCluster"} <= direct[1].keys()
    expected = {node_id: narrowed(ranges) for node_id, ranges in direct.items()}
    assert offered(java, sluice_three.bootstrap) == expected


# Without topics. Kafka 4.0 removed the versions; ApiVersions of brokers since then has a Produce v0 all the same.
REMOVED: Final = {
    ("Produce", 2): struct.pack(">hii", 1, 1_000, 0),
    ("Fetch", 3): struct.pack(">iiiii", -1, 0, 0, 1_000, 0),
    ("ListOffsets", 0): struct.pack(">ii", -1, 0),
}


COUNTER: Final = "sluice_removed_versions_total"


def answer_to(bootstrap: str, request: bytes) -> bytes:
    """Return the reply to a request; nothing if the connection is closed instead."""
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), 60) as sock:
        sock.sendall(request)
        try:
            length = sock.recv(4, socket.MSG_WAITALL)
        except ConnectionResetError:
            return b""
        return length and length + receive(sock, int.from_bytes(length))


def test_a_removed_version_has_the_brokers_answer_and_is_told(
    kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """Brokers before 4.0 serve it, later ones close the connection; either way the log and a counter name it."""
    admin = f"127.0.0.1:{free_ports()}"
    variables = {"SLUICE_ADMIN_LISTEN": admin, "SLUICE_LOG_FORMAT": "json"}
    with SluiceProcess(kafka_one.bootstrap, tmp_path, variables=variables) as sluice:
        for (name, version), body in REMOVED.items():
            request = f.request(key_named(name), version, 1, body, client_id="old-app")
            direct = answer_to(kafka_one.bootstrap, request)
            assert bool(direct) == (KAFKA_RELEASE < (4, 0))
            assert answer_to(sluice.bootstrap, request) == direct
        for name, version in REMOVED:
            labels = {"api": name, "version": str(version)}
            counted = partial(metrics_of, admin, **labels)  # a page may be a second old
            await_that(lambda: counted().get(COUNTER) == 1, f"{labels} to be counted")  # noqa: B023 - called at once
        lines = map(json.loads, sluice.log.read_text().splitlines())
    told = [line for line in lines if line["event"] == "removed_version"]
    assert [(line["api"], line["version"], line["client_id"]) for line in told] == [
        (*each, "old-app") for each in REMOVED
    ]
    assert told[1]["removed_in"] == "Kafka 4.0 (KIP-896)"
