"""Sessions that share a small pool: requests that are kept whole, brokers that stop reading, the counts."""

from dataclasses import replace

from policies.api import FORWARD, Need, Peer, Policy, Request, Verdict
from policies.testing import BenchHost
from proxy.core.engine import Engine
from proxy.core.memory.claim import Claimant
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from proxy.core.session.channel import Mute
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

PATIENT = ReadLimits(0, 0)
"""No client is slow."""
OVERHEAD = len(f.request(f.LIST_OFFSETS, 1, 1))


def kept(number: int, whole_bytes: int = 100) -> bytes:
    """Return a request of this total size, of an API whose requests `Keeper` wants whole."""
    return f.request(f.LIST_OFFSETS, 1, number, bytes(whole_bytes - OVERHEAD))


class Keeper(Recorder):
    """Wants ListOffsets whole, and decides as it is told to."""

    def __init__(self, decide=None, **options) -> None:
        options = {"needs": Need.BODY, "apis": {f.LIST_OFFSETS}, **options}
        if decide is not None:
            options["decide"] = decide
        super().__init__(**options)


class BodyReader(Policy):
    """Wants ListOffsets whole, as `Keeper`, lets all pass, and remembers none: large ones would add up."""

    Config = dict
    needs = Need.BODY
    apis = frozenset({f.LIST_OFFSETS})

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        assert request.body
        return FORWARD


def small_engine(
    pool: int, *policies: Policy, limits: ReadLimits = PATIENT, **options: float
) -> Engine:
    """Return an engine whose pool of requests has so many bytes."""
    max_bytes = options.pop("request_max_bytes", 104_857_600)
    pool_limits = PoolLimits(request_bytes=pool, read_limits=limits, **options)  # type: ignore[arg-type]
    return make_engine(
        policies or [BodyReader({}, BenchHost())],
        pool_limits=pool_limits,
        request_max_bytes=int(max_bytes),
    )


class Link(Wire):
    """A session from a host of its own, whose broker may stop reading (`stuck`)."""

    def __init__(
        self,
        engine: Engine,
        host: str = "10.0.0.9",
        user: str = "",
        node_id: int | None = None,
    ) -> None:
        super().__init__(engine, node_id)
        session = self.session
        session.peer = replace(session.peer, host=host, user=user or session.peer.user)
        self.stuck = False

    @property
    def waits(self) -> bool:
        return bool(self.session.client.muted & Mute.OUT_OF_MEMORY)

    def settle(self) -> None:
        """Do as the event loop: a stuck broker mutes the client."""
        if not self.stuck:
            super().settle()
        else:
            self.session.uses_outboxes = False
        client = self.session.client
        if self.session.broker.outbox:
            client.mute(Mute.BACKPRESSURE)
        else:
            client.unmute(Mute.BACKPRESSURE)

    def unstick(self) -> None:
        """Let the broker read again."""
        self.stuck = False
        self.settle()
        self.proceed()
        self.give_turns()

    def _read(self, channel, take, data, name):
        if not (self.stuck and name == "to_broker"):
            super()._read(channel, take, data, name)
            return
        before = self.to_broker
        super()._read(channel, take, data, name)
        straight, self.to_broker = self.to_broker[len(before) :], before
        self.session.broker.put(straight)
        self.settle()


def begun(engine: Engine, number: int = 1, size: int = 600, host: str = "10.0.0.9") -> Link:
    """Return a session inside a request that is kept whole; its size was read before, so it is not left unread."""
    link = Link(engine, host)
    link.session.client.keep(kept(number, size)[:8])
    return link.client(kept(number, size)[8:100])


def finish(link: Link, number: int = 1, size: int = 600) -> None:
    link.client(kept(number, size)[100:])


def unread_bytes(claimant: Claimant) -> int:
    """Return the bytes that a client has sent and the session has not read, as the event loop asks the kernel."""
    return claimant.handle.unread_bytes if isinstance(claimant.handle, Wire) else 0


def request_bytes_of(wires: list[Wire]) -> int:
    """Return the bytes that the sessions hold of requests, counted at their places."""
    return sum(
        wire.session.claim.reserved_bytes
        + wire.session.broker.unsent_bytes
        + wire.session.broker.head_at
        + len(wire.session.client.carry)
        for wire in wires
    )
