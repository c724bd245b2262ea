"""The C programs: they build, and what they say is Kafka."""

import importlib
import json
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from kio.serial import entity_reader

from bench.build import build, maybe_compiler
from bench.harness.ports import free_ports
from bench.harness.processes import Program

pytestmark = pytest.mark.skipif(maybe_compiler() is None, reason="no C compiler")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Built once, apart from bench/bin."""
    return build(tmp_path_factory.mktemp("bin"))


@pytest.fixture
def through_relay(programs: dict[str, Path], tmp_path: Path) -> Iterator[int]:
    """The port of a relay before a broker."""
    core, port = min(os.sched_getaffinity(0)), free_ports(count=2)
    broker = Program([str(programs["broker"]), str(port)], core, tmp_path / "broker")
    relay = Program([str(programs["relay"]), str(port + 1), str(port)], core, tmp_path / "relay")
    try:
        broker.wait_accepting(port)
        relay.wait_accepting(port + 1)
        yield port + 1
    finally:
        relay.stop()
        broker.stop()


def load(programs: dict[str, Path], port: int, *arguments: str) -> dict[str, float]:
    """One short run of load; what it printed."""
    command = [str(programs["load"]), "-p", str(port), "-w", "0.02", "-s", "0.05", *arguments]
    done = subprocess.run(command, input="go\n", capture_output=True, text=True, check=True)
    ready, said = done.stdout.splitlines()
    assert ready == "ready"
    found: dict[str, float] = json.loads(said)
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("-n", "3"),
        ("-n", "2", "-d", "10", "-g", "-v", "11"),
        ("-n", "2", "-r", "500"),
        ("-n", "2", "-b", "1048576"),
        ("-n", "2", "-d", "2", "-k", "fetch", "-b", "1048576"),
    ],
)
def test_requests_go_through_the_relay(
    programs: dict[str, Path], through_relay: int, arguments: tuple[str, ...]
) -> None:
    """Every shape is answered in order and in full, else load would have failed."""
    said = load(programs, through_relay, *arguments)
    assert said["requests"] > 0
    assert 0 < said["p50_us"] <= said["p99_us"] * 1.02


def test_a_rate_is_kept(programs: dict[str, Path], through_relay: int) -> None:
    """Open loop sends what was asked for, no matter how fast replies come."""
    assert load(programs, through_relay, "-n", "2", "-r", "1000")["requests"] == 50


def first_request(programs: dict[str, Path], *arguments: str) -> bytes:
    """The first frame that load sends, without its length."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        command = [str(programs["load"]), "-p", str(server.getsockname()[1]), "-n", "1", *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as sender:
            peer, _ = server.accept()
            with peer, peer.makefile("rb") as stream:
                frame: bytes = stream.read(int.from_bytes(stream.read(4)))
            sender.wait(5)
    return frame


def module(api: str, version: int) -> ModuleType:
    """The codec's module of one API's reply."""
    return importlib.import_module(f"kio.schema.{api}.v{version}.response")


@pytest.mark.parametrize(
    ("api", "name", "version", "arguments"),
    [
        ("produce", "ProduceResponse", 9, ()),
        ("produce", "ProduceResponse", 11, ("-v", "11")),
        ("fetch", "FetchResponse", 12, ("-k", "fetch", "-b", "5000")),
    ],
)
def test_replies_are_what_the_codec_expects(
    programs: dict[str, Path],
    tmp_path: Path,
    api: str,
    name: str,
    version: int,
    arguments: tuple[str, ...],
) -> None:
    """The broker's answer to what load sends is read to its last byte: one partition, no error."""
    frame = first_request(programs, *arguments)
    port = free_ports()
    broker = Program(
        [str(programs["broker"]), str(port)], min(os.sched_getaffinity(0)), tmp_path / "log"
    )
    try:
        broker.wait_accepting(port)
        with socket.create_connection(("127.0.0.1", port), 60) as asker:
            asker.sendall(struct.pack(">i", len(frame)) + frame)
            body = asker.recv(int.from_bytes(asker.recv(4)), socket.MSG_WAITALL)
    finally:
        broker.stop()
    reply, read = entity_reader(getattr(module(api, version), name))(body, 5)
    assert 5 + read == len(body)
    topics = reply.responses
    parts = topics[0].partition_responses if api == "produce" else topics[0].partitions
    assert [
        (part.index if api == "produce" else part.partition_index, part.error_code)
        for part in parts
    ] == [(0, 0)]


@pytest.mark.parametrize(
    ("api", "name", "api_key", "versions"),
    [
        ("api_versions", "ApiVersionsResponse", 18, range(4)),
        ("metadata", "MetadataResponse", 3, range(13)),
    ],
)
def test_the_broker_says_who_it_is_in_every_version(
    programs: dict[str, Path], tmp_path: Path, api: str, name: str, api_key: int, versions: range
) -> None:
    """Proxies ask with versions of their own; the codec reads each reply to its last byte."""
    port = free_ports()
    broker = Program(
        [str(programs["broker"]), str(port), "7"], min(os.sched_getaffinity(0)), tmp_path / "log"
    )
    try:
        broker.wait_accepting(port)
        with socket.create_connection(("127.0.0.1", port), 60) as asker:
            for version in versions:
                asker.sendall(struct.pack(">ihhih", 10, api_key, version, version, -1))
                size, correlation_id = struct.unpack(">ii", asker.recv(8, socket.MSG_WAITALL))
                body = asker.recv(size - 4, socket.MSG_WAITALL)
                tags = 1 if api == "metadata" and version >= 9 else 0
                reply, read = entity_reader(getattr(module(api, version), name))(body, tags)
                assert correlation_id == version
                assert tags + read == len(body)
                if api == "metadata":
                    assert [(node.node_id, node.port) for node in reply.brokers] == [(7, port)]
                else:
                    assert {key.api_key for key in reply.api_keys} == {0, 1, 3, 18}
    finally:
        broker.stop()
