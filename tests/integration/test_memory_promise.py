"""Every place that keeps bytes is filled at once in a cgroup
of the promised size: no kill, and all memory is released.
"""

import json
import re
import selectors
import socket
import struct
import subprocess
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE
from typing import Final

import pytest

from bench.harness.usage import peak_bytes
from bench.memory import whole
from bench.memory.cgroup import Cgroup, NoCgroupError, memory_cgroup
from tests.support.messages import frames as f
from tests.support.messages.rewritten import share_fetch
from tests.support.processes.sluice_process import COMMAND, SluiceProcess

MIB: Final = 1 << 20
USABLE_PART: Final = 0.85
EACH: Final = 20
CONNECTIONS: Final = 250
WHOLE_BYTES: Final = 4 * MIB
ADDRESS: Final = "127.0.21.1"
PATIENCE_SECONDS: Final = 120.0


class RoleBroker:
    """A broker that treats each connection by the client id of its first request.

    `stuck`: it stops reading. `silent`: it does not answer. Else it sends `replies[client id]`, again and again.
    """

    def __init__(self, replies: dict[bytes, bytes]) -> None:
        self._replies = replies
        self._listener = socket.create_server((ADDRESS, 0), backlog=1024)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.server = f"{ADDRESS}:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, EVENT_READ)
        self._stuck: list[socket.socket] = []
        self._heads: dict[socket.socket, bytes] = {}  # the first bytes of each connection
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over = True
        self._thread.join(5)

    def _run(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    near, _ = self._listener.accept()
                    near.setblocking(False)
                    self._selector.register(near, EVENT_READ, b"")
                else:
                    self._serve(key)
        for near in (*self._stuck, *(key.fileobj for key in self._selector.get_map().values())):
            near.close()

    def _serve(self, key: selectors.SelectorKey) -> None:
        near = key.fileobj
        assert isinstance(near, socket.socket)
        try:
            if key.data:
                left = key.data[near.send(key.data) :]
                self._selector.modify(near, EVENT_WRITE if left else EVENT_READ, left)
            elif data := near.recv(1 << 16):
                self._take(near, data)
            else:
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self._selector.unregister(near)
            near.close()

    def _take(self, near: socket.socket, data: bytes) -> None:
        head = self._heads.get(near, b"")
        if len(head) < 64:  # reads may end anywhere
            head = self._heads[near] = head + data[:64]
        if len(head) < 14:
            return
        (size,) = struct.unpack_from(">h", head, 12)
        role = head[14 : 14 + size]
        if role == b"stuck":
            self._selector.unregister(near)
            self._stuck.append(near)
        elif role in self._replies:
            self._selector.modify(near, EVENT_WRITE, memoryview(self._replies[role]))


@dataclass(slots=True)
class Confined(SluiceProcess):
    """A Sluice inside a cgroup, with these settings."""

    group: Cgroup | None = None
    settings: dict[str, object] | None = None

    def _limited(self) -> list[str]:
        assert self.group is not None
        return self.group.entering()

    def _arguments(self) -> list[str]:
        path = self.directory / "sluice.yaml"
        listen = {"address": self.address, "port": self.port, "nodes": "0-7"}
        config = {
            "upstream": {"bootstrap_servers": [self.upstream]},
            "listen": listen,
            **(self.settings or {}),
        }
        path.write_text(json.dumps(config))  # JSON is YAML
        return ["--config", str(path)]


def settings(admin: Path) -> dict[str, object]:
    return {
        "limits": {"max_connections": CONNECTIONS, "socket_request_max_bytes": WHOLE_BYTES},
        "memory": {
            "queued_max_request_bytes": 24 * MIB,
            "queued_max_response_bytes": 16 * MIB,
            "upstream_announced_max_bytes": 16 * MIB,
            "request_read_timeout_ms": 0,  # slow clients stay, so that all of it is there together
            "request_min_bytes_per_second": 0,
        },
        "policies": [{"use": whole.NAME}],
        "admin": {"socket": str(admin)},
        "drain": {"timeout_ms": 500},
    }


def promised_bytes(config: Path, python_path: str) -> int:
    """Return the bytes that `sluice check` names as the most it uses."""
    said = subprocess.run(
        [COMMAND, "check", "--config", str(config)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": python_path, "PATH": "/usr/bin:/bin"},
    ).stdout
    found = re.search(r"^\s*([\d.]+) MiB +in all", said, re.MULTILINE)
    assert found is not None, said
    return int(float(found[1]) * MIB)


def traffic() -> dict[str, bytes]:
    """Return the bytes of each kind of client, by its role; after them it neither sends nor reads."""
    streamed = f.request(f.LIST_OFFSETS, 1, 1, bytes(3 * MIB), client_id="stuck")
    produced = f.produce(1, size_bytes=3 * MIB, client_id="silent")
    head = f.request(f.HEARTBEAT, 0, 1, bytes(10), client_id="h" * 32_000)
    asked, _ = share_fetch(1, 10)
    return {
        "fetch": f.request(f.FETCH, 4, 1, bytes(30), client_id="fetch"),
        "metadata": f.request(f.METADATA, 1, 1, b"\xff\xff\xff\xff", client_id="metadata"),
        "share": asked.replace(b"tests", b"share"),
        "streams to a broker that does not read": streamed * 4,
        "is kept whole and does not come": produced[: 1 * MIB],
        "announces and does not send": f.request(
            f.LIST_OFFSETS, 1, 1, bytes(2 * MIB), client_id="silent"
        )[:5000],
        "has a head that does not end": head[:-11],
        "has many small requests in flight": f.heartbeat(1, "silent") * 2000,
    }


def replies() -> dict[bytes, bytes]:
    brokers = f.metadata_reply(1, [(1, "kafka-1.real", 9092)])[8:-4]
    _, share = share_fetch(1, 6 * MIB)  # more than the kernel takes of it (tcp_wmem: 4 MiB)
    return {
        b"fetch": f.reply(1, bytes(16 * MIB)),
        b"metadata": f.reply(1, brokers + bytes(16 * MIB)),
        b"share": share,
        b"honest": f.heartbeat_reply(1),
    }


MixedClients = list[tuple[socket.socket, memoryview]]


def pour(crowd: MixedClients, seconds: float) -> MixedClients:
    """Send as much as is accepted; return the rest."""
    left = crowd
    give_up = time.monotonic() + seconds
    while left and time.monotonic() < give_up:
        still = []
        for client, data in left:
            try:
                rest = data[client.send(data[: 1 << 18]) :]
            except BlockingIOError:
                rest = data
            except OSError:
                continue  # it was closed, as slow clients are
            if rest:
                still.append((client, rest))
        left = still
        time.sleep(0.01)
    return left


def pools_of(admin: Path) -> list[dict[str, float]]:
    """Return the pools of requests and of replies, as the admin server shows them."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(PATIENCE_SECONDS)
        asking.connect(str(admin))
        asking.sendall(b"GET /v1/pool HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: asking.recv(1 << 16), b""))
    assert b" 200 " in answer.split(b"\r\n", 1)[0], answer
    pools: list[dict[str, float]] = json.loads(
        answer[answer.index(b"{") : answer.rindex(b"}") + 1]
    )["pools"]
    return pools


def used_bytes(pools: list[dict[str, float]]) -> float:
    """Return the sum of both."""
    return sum(pool["used_bytes"] for pool in pools)


def are_filled(pools: list[dict[str, float]]) -> bool:
    """Return whether both pools have been used up, and hold most
    of their 40 MiB now; the kernel's buffers have the rest.
    """
    used_up = all(pool["depleted_ms"] > 0 for pool in pools)
    return used_up and used_bytes(pools) >= 28 * MIB


def test_all_places_that_keep_bytes_together_stay_within_the_promise(tmp_path: Path) -> None:
    """Unread replies of three kinds, stuck streams, slow bodies and heads, announced and pipelined requests."""
    admin = tmp_path / "admin"
    python_path = whole.install(tmp_path)
    with ExitStack() as stack:
        broker = RoleBroker(replies())
        stack.callback(broker.close)
        sluice = Confined(
            broker.server,
            tmp_path / "sluice",
            variables={"PYTHONPATH": python_path},
            settings=settings(admin),
        )
        config = tmp_path / "sluice" / "sluice.yaml"
        sluice._arguments()
        limit = int(promised_bytes(config, python_path) / USABLE_PART) + MIB
        try:
            group = stack.enter_context(memory_cgroup(limit))
        except NoCgroupError as error:
            pytest.skip(str(error))
        sluice.group = group
        sluice.start()
        stack.callback(lambda: sluice.process is not None and sluice.kill())
        clients: list[socket.socket] = []
        crowd: MixedClients = []
        for data in traffic().values():
            for _ in range(EACH):
                client = stack.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
                client.connect(("127.0.0.1", sluice.port))
                client.setblocking(False)
                clients.append(client)
                crowd.append((client, memoryview(data)))
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not admin.exists() and time.monotonic() < give_up:
            time.sleep(0.05)  # ports are open a moment before the admin server is
        while not are_filled(pools := pools_of(admin)) and time.monotonic() < give_up:
            crowd = pour(crowd, 1.0)
        assert are_filled(pools), pools
        assert group.kills() == 0
        with socket.create_connection(("127.0.0.1", sluice.port), timeout=PATIENCE_SECONDS) as one:
            one.sendall(f.heartbeat(1, "honest"))
            assert one.recv(100) == f.heartbeat_reply(1)
        assert peak_bytes(sluice.pid) <= limit
        for client in clients:
            client.close()
        broker.close()  # a client that does not read would have half a minute to take its replies
        give_up = time.monotonic() + PATIENCE_SECONDS
        while used_bytes(pools_of(admin)) and time.monotonic() < give_up:
            time.sleep(0.1)
        assert used_bytes(pools_of(admin)) == 0
        assert group.kills() == 0
        sluice.stop()
