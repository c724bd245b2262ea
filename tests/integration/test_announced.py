"""A broker with a small heap survives, through Sluice, clients that announce large requests and send little."""

import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.memory.frames import error_of, produce_frame
from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = pytest.mark.slow

MIB = 1 << 20
HEAP = "256m"
CROWD = 200
ANNOUNCED_BYTES = 16 * MIB
BOUND_BYTES = 48 * MIB
PATIENCE_SECONDS = 60.0
DEAD = b"OutOfMemoryError"
SETTINGS = {"message.max.bytes": str(64 * MIB)}


def announce(stack: ExitStack, host: str, port: int, frame: bytes) -> list[socket.socket]:
    """Open so many connections that announce a request and send its first bytes."""
    crowd = []
    for _ in range(CROWD):
        each = stack.enter_context(socket.create_connection((host, port), timeout=60))
        each.sendall(frame[:200])
        crowd.append(each)
    return crowd


def is_acknowledged(host: str, port: int, frame: bytes) -> bool:
    """Return whether an honest request is acknowledged within PATIENCE_SECONDS."""
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_SECONDS) as client:
            client.sendall(frame)
            reply = b""
            while len(reply) < 4 or len(reply) < 4 + int.from_bytes(reply[:4], "big"):
                part = client.recv(1 << 16)
                if not part:
                    return False
                reply += part
            return not error_of(reply[4:])
    except OSError:
        return False


def await_word(cluster: KafkaCluster, word: bytes) -> bool:
    """Return whether the broker logs this, or ends, within PATIENCE_SECONDS."""
    broker = cluster.brokers[1]
    give_up = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up:
        gone = broker.process is None or broker.process.poll() is not None
        if gone or word in broker.log.read_bytes():
            return True
        time.sleep(0.1)
    return False


def test_clients_that_announce_much_and_send_little_do_not_use_up_a_brokers_heap(
    java: Java, tmp_path: Path
) -> None:
    """200 times 16 MiB at a heap of 256 MiB. Honest requests, small and large, are acknowledged meanwhile."""
    cluster = KafkaCluster(tmp_path / "kafka", 1, 77, java, settings=SETTINGS, heap=HEAP)
    cluster.start()
    broker = cluster.brokers[1]
    try:
        topic = Topics(cluster.bootstrap, 1).make(1)
        large = produce_frame(topic, ANNOUNCED_BYTES)
        honest = [produce_frame(topic, 1000), produce_frame(topic, MIB)]
        with (
            SluiceProcess(
                cluster.bootstrap,
                tmp_path / "sluice",
                variables={"SLUICE_MEMORY_UPSTREAM_ANNOUNCED_MAX_BYTES": str(BOUND_BYTES)},
            ) as sluice,
            ExitStack() as stack,
        ):
            announce(stack, "127.0.0.1", sluice.port, large)
            assert is_acknowledged("127.0.0.1", sluice.port, honest[0])
            assert is_acknowledged("127.0.0.1", sluice.port, honest[1])
            time.sleep(1)
        assert DEAD not in broker.log.read_bytes()
        with ExitStack() as stack:
            announce(stack, broker.host, broker.port, large)
            assert await_word(cluster, DEAD)  # the same, directly
    finally:
        if broker.process is not None:
            broker.process.kill()
        cluster.stop()
