"""A broker that takes nothing, or goes on by fits and starts, behind many bulk producers.

Memory, what the kernel holds, and what is owed are judged by counts, the delay of small requests to another broker by
the CPU that Sluice spends meanwhile. `tests/proxy/shell/test_event_loop_stalled.py` counts their steps.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from bench.harness.ports import free_ports
from bench.harness.usage import peak_bytes
from bench.memory.container import checked_mib
from bench.memory.held import socket_inodes, tcp_sockets
from bench.memory.proxies import said_by
from proxy.shell.dial import UNSENT_BYTES
from tests.support.faults.bulk_producers import BulkProducers, produce, timed_out
from tests.support.faults.honest import Crowd, Honest
from tests.support.faults.stub_broker import NODE, StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.processes.measured import metrics_of, tell
from tests.support.processes.sluice_process import COMMAND, SluiceProcess

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no limit of unsent bytes"
)
KIB, MIB = 1 << 10, 1 << 20
COUNTS: Final = [20, pytest.param(200, marks=pytest.mark.slow)]
REQUESTS: Final = 60
REQUEST_BYTES: Final = 60 * KIB
"""Of larger ones the broker would be told less (`memory.upstream_announced_max_bytes`)."""
POOL_BYTES_EACH: Final = 100 * KIB
"""Less than a read, so that the producers together find the pool empty."""
SEGMENT_BYTES: Final = 64 * KIB
"""The kernel takes bytes in segments: the last one may exceed the limit."""
NEVER_MS: Final = 3_600_000
EVER: Final = 1 << 60
FITS: Final = 10
FIT_READS: Final = 50
HONEST_REQUESTS: Final = 300
MAX_CPU_S: Final = 0.02
"""What Sluice may spend while a small request waits: some steps of 2 ms each."""


class StallingBroker(StubBroker):
    """Reads `reads_left` times more, and then stands still. It tells clients that node NODE is `other` (HOST:PORT)."""

    def __init__(self, other: str) -> None:
        super().__init__(self._answer_for)
        self._other = other
        self._changed = threading.Condition()
        self.reads_left = EVER

    def __exit__(self, *args: object) -> None:
        self.allow(EVER)
        super().__exit__(*args)

    def allow(self, reads: int) -> None:
        """Let it read so many times from now on."""
        with self._changed:
            self.reads_left = reads
            self._changed.notify()

    def _answer_for(self, request: bytes) -> bytes | None:
        key, version, number = struct.unpack_from(">hhi", request, 4)
        if key == f.METADATA and version == 1:
            host, _, port = self._other.partition(":")
            return f.metadata_reply(number, [(NODE, host, int(port))])
        return self.usual(request)

    def _read(self, connection) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.reads_left)
            self.reads_left -= 1
        super()._read(connection)


def unsent_bytes(broker: StubBroker, sluice: SluiceProcess) -> list[int]:
    """Return what the kernel has not sent yet on each of Sluice's connections to a broker."""
    host, _, port = broker.server.partition(":")
    mine = set(socket_inodes(sluice.pid))
    return [
        each.unsent_bytes
        for each in tcp_sockets()
        if each.inode in mine and each.remote == (host, int(port))
    ]


@pytest.fixture
def stalling(far: str) -> Iterator[StallingBroker]:
    """A broker that a test stalls; node NODE is another, in a process of its own."""
    with StallingBroker(far) as broker:
        yield broker


def settings_of(count: int, admin: str) -> dict[str, object]:
    pool_bytes = count * POOL_BYTES_EACH
    return {
        "admin": {"listen": admin},
        "limits": {"max_connections": count + 20, "socket_request_max_bytes": 2 * MIB},
        "memory": {
            "queued_max_request_bytes": pool_bytes,
            "queued_max_response_bytes": pool_bytes,
            "request_read_timeout_ms": 0,
        },
        "purgatory": {"max_wait_ms": NEVER_MS},
    }


def waits_ms(crowd: Crowd) -> str:
    """Return the median and the 99th percentile of the waits."""
    found = sorted(crowd.waits_s)
    return f"{found[len(found) // 2] * 1000:.1f} / {found[len(found) * 99 // 100] * 1000:.1f} ms"


@contextmanager
def honest_clients(sluice: SluiceProcess) -> Iterator[Crowd]:
    """Two clients of another broker; at the end each has got exactly its own replies, HONEST_REQUESTS of them."""
    with Crowd(sluice.node_port(NODE), 2, pid=sluice.pid) as crowd:
        yield crowd
        await_that(lambda: len(crowd.waits_s) >= HONEST_REQUESTS, "honest replies")


@pytest.mark.parametrize("count", COUNTS)
def test_a_broker_that_takes_nothing_costs_what_is_promised(start, stalling, count) -> None:
    """Each producer fills its connection and stops, and clients of another broker are served.

    The broker goes on by fits and starts, and then for good: no request is lost, or answered twice or by Sluice.
    """
    admin = f"127.0.0.1:{free_ports()}"
    patient = {"request_timeout_ms": NEVER_MS}
    sluice = start(stalling.server, settings=settings_of(count, admin), upstream_settings=patient)
    said = said_by([str(COMMAND), "check", "--config", str(sluice.file)])
    promised_bytes = checked_mib(said) * MIB
    with Honest(sluice.node_port(NODE)) as first:
        first.ask()  # the broker tells where the other one is while it can
    with honest_clients(sluice) as alone:
        pass
    requests = [produce(number, REQUEST_BYTES, NEVER_MS) for number in range(REQUESTS)]
    replies = [f.produce_reply(number) for number in range(REQUESTS)]
    stalling.allow(0)
    with BulkProducers(sluice.port, count, requests) as producers:
        producers.run_until(
            lambda: metrics_of(admin)["sluice_connections_muted"] == count, "full connections"
        )
        with honest_clients(sluice) as beside:
            pass
        unsent = unsent_bytes(stalling, sluice)
        assert sum(each > UNSENT_BYTES // 2 for each in unsent) == count
        held_bytes = metrics_of(admin)["sluice_pool_used_bytes"]
        with honest_clients(sluice) as slowly:
            for _ in range(FITS):
                stalling.allow(FIT_READS)
                producers.run_until(lambda: not stalling.reads_left, "the broker to read")
        unsent += unsent_bytes(stalling, sluice)
        stalling.allow(EVER)
        producers.run_until(lambda: producers.have_received(len(b"".join(replies))), "all replies")
        await_that(lambda: not metrics_of(admin)["sluice_pool_used_bytes"], "empty pools")
        got = [each.replies for each in producers.all]
    peak = peak_bytes(sluice.pid)
    tell(
        "a stalled broker",
        f"{count} producers: {max(unsent) / KIB:.0f} KiB unsent in a connection at most; {held_bytes / MIB:.1f} MiB in "
        f"the pools; resident {peak / MIB:.0f} of {promised_bytes / MIB:.0f} MiB; small requests to another broker "
        f"{waits_ms(alone)} alone, {waits_ms(beside)} beside it, {waits_ms(slowly)} while it reads slowly (p50 / p99); "
        f"Sluice spent {beside.worst_cpu_s * 1000:.1f} and {slowly.worst_cpu_s * 1000:.1f} ms in one at most",
    )
    assert got == [replies] * count
    assert max(unsent) <= UNSENT_BYTES + SEGMENT_BYTES
    assert peak <= promised_bytes
    assert max(beside.worst_cpu_s, slowly.worst_cpu_s) <= MAX_CPU_S


@pytest.mark.slow
def test_what_a_broker_owes_that_takes_nothing_is_answered_or_closed(start, stalling) -> None:
    """The first requests get an error, in order; then the connection closes. Clients that come later are served.

    `tests/proxy/shell/test_event_loop_stalled.py` has the deadlines.
    """
    sluice = start(
        stalling.server,
        upstream_settings={"request_timeout_ms": 4_000},
        settings={"purgatory": {"silence_ms": 1_000, "produce_grace_ms": 0}},
    )
    requests = [produce(number, MIB // 2, 1_000) for number in range(10)]
    errors = [timed_out(number) for number in range(len(requests))]
    stalling.allow(0)
    with BulkProducers(sluice.port, 200, requests) as producers:
        producers.run_until(lambda: all(each.closed for each in producers.all), "their ends")
        for each in producers.all:
            assert each.replies
            assert each.received == b"".join(errors[: len(each.replies)])
    stalling.allow(EVER)
    with BulkProducers(sluice.port, 20, [produce(1, KIB, 60_000)]) as producers:
        reply = f.produce_reply(1)
        producers.run_until(lambda: producers.have_received(len(reply)), "their replies")
        assert all(each.received == reply for each in producers.all)
