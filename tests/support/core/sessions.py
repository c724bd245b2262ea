"""A session between two ends made of bytes: the work of the event loop, without a socket.

`Wire` feeds a Session in chunks through one shared scratch buffer full of old bytes, and collects the output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from policies.api import Peer, Policy
from policies.chain import Chain, Entry
from policies.decision import PolicyDecision
from policies.hook_runner import HookRunner
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.observer import AuthenticationFailure, Observer
from proxy.core.session.channel import Channel
from proxy.core.session.engine_options import EngineOptions
from proxy.core.stats.usage import UsageRow
from proxy.core.topology import Topology
from proxy.core.turns import TURN_LABOUR_BYTES
from wire.apis import Api

AT = 416 << 10
SCRATCH = bytearray(AT + (288 << 10) + 512)
JUNK = b"\x00\x00\x00\x0e\x00\x0c\x00\x00" * 64
"""Bytes that look valid, and are old."""


class Watcher(Observer):
    """Remembers what the core reported."""

    def __init__(self) -> None:
        self.closed: list[tuple[CloseReason, str]] = []
        self.unmapped: list[int] = []
        self.learned: dict[int, tuple[str, int]] = {}
        self.internal: list[BaseException] = []
        self.policy_errors: list[tuple[str, str]] = []
        self.observed: list[str] = []
        self.refused: list[PolicyDecision] = []
        self.slow: list[tuple[str, str, str, int]] = []
        self.slow_steps: list[tuple[int, list[str]]] = []
        self.outages: list[tuple[str, int | None]] = []
        self.rows: list[UsageRow] = []
        self.hung_up: list[tuple[str, str]] = []
        self.expired: list[tuple[str, str]] = []
        self.removed: list[tuple[str, str, int]] = []
        self.failures: list[AuthenticationFailure] = []

    def on_authentication_failed(self, peer: Peer, failure: AuthenticationFailure) -> None:
        self.failures.append(failure)

    def on_expired(self, peer: Peer, api_name: str) -> None:
        self.expired.append((peer.client_id, api_name))

    def on_removed_version(self, peer: Peer, api: Api) -> None:
        self.removed.append((peer.client_id, api.name, api.version))

    def on_bootstrap_closed(self, peer: Peer, address: str, likely: str) -> None:
        self.hung_up.append((address, likely))

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        self.closed.append((reason, detail))

    def on_unmapped_node(self, node_id: int) -> None:
        self.unmapped.append(node_id)

    def on_node_learned(self, node_id: int, host: str, port: int) -> None:
        self.learned[node_id] = (host, port)

    def on_internal_error(self, error: BaseException) -> None:
        self.internal.append(error)

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        self.policy_errors.append((name, hook))

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        self.observed.append(decision.policy)

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        self.refused.append(decision)

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        self.slow.append((name, hook, api_name, took_us))

    def on_slow_step(self, took_ms: int, policies: Sequence[str]) -> None:
        self.slow_steps.append((took_ms, list(policies)))

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        self.rows.extend(rows)

    def on_pool_depleted(self, pool: str) -> None:
        self.outages.append((pool, None))

    def on_pool_recovered(self, pool: str, depleted_ms: int) -> None:
        self.outages.append((pool, depleted_ms))


def make_topology(watcher: Watcher) -> Topology:
    """Return a topology with nodes 0-3 at ports 19093-19096 of 127.0.0.1."""
    ports = {n: ("127.0.0.1", 19093 + n) for n in range(4)}
    return Topology("127.0.0.1", 19092, ports, watcher)


def make_engine(
    policies: Sequence[Policy] = (),
    *,
    now_ms: int = 0,
    mode: Literal["enforce", "observe"] = "enforce",
    on_error: Literal["close", "forward"] = "close",
    clock: Callable[[], int] | None = None,
    watcher: Watcher | None = None,
    **options: int | PoolLimits,
) -> Engine:
    """Return an engine with these policies as entries p0, p1, ..., whose hooks are measured by `clock`."""
    watcher = watcher or Watcher()
    entries = [Entry(f"p{place}", policy, mode, on_error) for place, policy in enumerate(policies)]
    return Engine(
        make_topology(watcher),
        Chain(entries, watcher, HookRunner(watcher, clock)),
        watcher,
        EngineOptions(**options),  # type: ignore[arg-type]
        now_ms=now_ms,
    )


def forget_ready(engine: Engine) -> None:
    """Drop the sessions that are ready now from the queue, without a turn."""
    while engine.turns.queue:
        engine.turns.end(engine.turns.take(), 0)


class Wire:
    """One session; `to_broker` and `to_client` are all bytes that were ever sent.

    The bytes of a muted client are read after it is unmuted. Time is the engine's.
    """

    def __init__(self, engine: Engine | None = None, node_id: int | None = None, **more) -> None:
        self.engine = engine or make_engine()
        session = self.engine.connect("10.0.0.9", 40000, node_id, **more)
        assert session is not None
        self.session = session
        session.handle = self
        self.to_broker = b""
        self.to_client = b""
        self.turns = 0  # how often the session was given a turn
        self.given_turns = 0  # how often something happened to it outside its own reads
        self._unread: deque[bytes] = deque()

    @property
    def watcher(self) -> Watcher:
        observer = self.engine.observer
        assert isinstance(observer, Watcher)
        return observer

    @property
    def now_ms(self) -> int:
        return self.engine.now_ms

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes that both pools count."""
        return self.engine.request_pool.used_bytes + self.engine.reply_pool.used_bytes

    @property
    def unread(self) -> bytes:
        """Return the bytes that the client has sent and the session has not read yet."""
        return b"".join(self._unread)

    @property
    def unread_bytes(self) -> int:
        """Return how many these are."""
        return sum(map(len, self._unread))

    def client(self, data: bytes, chunk: int = 256 << 10) -> Wire:
        """Let the client send this, in reads of at most `chunk` bytes, while it is not muted."""
        self.send(data, chunk)
        self.give_turns()
        return self

    def send(self, data: bytes, chunk: int = 256 << 10) -> None:
        """As `client`, before the event loop looks at what has happened outside this session's reads."""
        self._unread.extend(data[at : at + chunk] for at in range(0, len(data), chunk))
        self.proceed()

    def broker(self, data: bytes, chunk: int = 256 << 10) -> Wire:
        """Let the broker send this."""
        for at in range(0, len(data), chunk):
            if self.session.ended:
                break
            self._read(
                self.session.broker, self.session.from_broker, data[at : at + chunk], "to_client"
            )
            self.proceed()
        self.give_turns()
        return self

    def settle(self) -> None:
        """Send the content of the outboxes and do what is due now, as the event loop does."""
        session = self.session
        session.uses_outboxes = False
        for channel, name in ((session.broker, "to_broker"), (session.client, "to_client")):
            fronts = []
            while channel.outbox:
                fronts.append(bytes(channel.front(1 << 18)))
                channel.sent(len(fronts[-1]))
            if fronts:
                setattr(self, name, b"".join((getattr(self, name), *fronts)))

    def release(self) -> None:
        """Close both sockets."""
        self.session.handle = None
        self.session.release(self.now_ms)

    def advance(self, elapsed_ms: int) -> None:
        """Let time pass for all sessions of the engine."""
        self.engine.advance(self.now_ms + elapsed_ms)
        self.give_turns()
        self.settle()

    def wake(self, key: Hashable) -> int:
        """Wake a key as a policy does through its host; return the number of requests that waited."""
        woken = self.engine.wake(key)
        self.give_turns()
        return woken

    def drain(self) -> None:
        """Drain all sessions of the engine."""
        self.engine.drain()
        self.give_turns()

    def hang_up(self) -> None:
        """Let the client close its side while it is not read."""
        self.session.client_hung_up(self.now_ms)
        self.settle()
        self.proceed()

    def give_turns(self) -> None:
        """Give a turn to each session to which something happened outside its own reads."""
        turns = self.engine.turns
        while turns.queue:
            session = turns.take()
            if isinstance(wire := session.handle, Wire):
                wire.given_turns += 1
                wire.settle()
                wire.hear()
                wire.proceed()
            turns.end(session, 0)

    def hear(self) -> None:
        """Let the policies go on with a reply that they take in turns, as in a turn of the event loop."""
        session = self.session
        if session.hears_in_turns and not session.ended:
            self._read(session.broker, session.from_broker, b"", "to_client")

    def take_turn(self, data: bytes = b"") -> None:
        """Take one turn, in which these bytes are read."""
        session = self.session
        self.turns += 1
        self.engine.turns.labour_bytes = TURN_LABOUR_BYTES
        if session.paced:
            session.resume()
        self._read(session.client, session.from_client, data, "to_broker")
        session.on_turn_over()

    def proceed(self) -> None:
        """Take the turns that are due, and read while there are bytes and the client is not muted."""
        session = self.session
        while not session.ended:
            if session.paced:
                self.take_turn()
            elif self._unread and not session.client.muted:
                data = self._unread.popleft()
                if self.engine.request_pool.near_limit:
                    most = self.engine.read_sizes.request_bytes(session)
                    if len(data) > most:
                        self._unread.appendleft(data[most:])
                    data = data[:most]
                self._read(session.client, session.from_client, data, "to_broker")
            else:
                break

    def _read(self, channel: Channel, take, data: bytes, name: str) -> None:
        buf = SCRATCH
        start, end = AT, AT + len(data)
        buf[start:end] = data
        buf[end : end + len(JUNK)] = JUNK
        if channel.carry:
            carry = channel.take()
            start -= len(carry)
            buf[start:AT] = carry
        stop = take(buf, start, end, self.now_ms)
        if stop < 0:
            self.settle()
        else:
            setattr(self, name, getattr(self, name) + bytes(buf[start:stop]))
