"""A session whose authentication is Sluice's own: a custodian without threads, and a broker that is served by hand."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from proxy.core.auth import scram
from proxy.core.auth.mechanisms import PlainClient, SaltedKeys, ScramClient
from proxy.core.auth.upstream_authentication import UpstreamAuthentication
from tests.support.core.sasl_broker import SaslBroker
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Policy

LIFETIME_MS = 10_000
ADDRESS = "broker:9092"


class FakeCustodian:
    """A Custodian: it is ready at once unless `missing` says why not, and computes at once unless `busy`."""

    def __init__(self, mechanism: str = "PLAIN", password: str = "s3cret") -> None:  # noqa: S107 - not a secret
        self.mechanism = mechanism
        self.keys = SaltedKeys(
            scram.MECHANISMS.get(mechanism, scram.SCRAM_SHA_256), lambda: password
        )
        self.password = password
        self.missing = ""
        self.part = 0.0
        self.busy = False
        self.waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.refused: list[str] = []
        self.prepared = 0

    def prepare(self, address: str, ready: Callable[[UpstreamAuthentication | str], None]) -> None:
        """See Custodian."""
        assert address == ADDRESS
        self.prepared += 1
        if self.missing:
            ready(self.missing)
        elif self.mechanism == "PLAIN":
            ready(UpstreamAuthentication(PlainClient("sluice", lambda: self.password)))
        else:
            ready(UpstreamAuthentication(ScramClient("sluice", self.keys, "nonce")))

    def work(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See Custodian."""
        self.waiting.append((work, done))
        if not self.busy:
            self.compute()

    def compute(self) -> None:
        """Do the work that waits."""
        while self.waiting:
            work, done = self.waiting.pop()
            work()
            done()

    def on_refused(self, address: str, why: str) -> None:
        """See Custodian."""
        assert self.password not in why
        self.refused.append(address)

    def jitter(self) -> float:
        """See Custodian."""
        return self.part


class RenewedLine:
    """A session in custody before a broker: `serve` lets the broker answer what it has received."""

    def __init__(
        self,
        shell: FakeCustodian | None = None,
        broker: SaslBroker | None = None,
        policies: tuple[Policy, ...] = (),
        **options: int,
    ) -> None:
        self.shell = shell or FakeCustodian()
        self.sasl = broker or SaslBroker(lifetime_ms=LIFETIME_MS)
        self.wire = Wire(make_engine(policies, **options))
        self.wire.engine.renew(self.wire.session, LIFETIME_MS, ADDRESS, self.shell, 0)
        self.read_bytes = 0
        self.keys: list[int] = []  # of all requests that the broker has read
        self.held_back = False  # whether the broker answers nothing

    def requests(self) -> list[bytes]:
        """Return the whole frames that the broker has received since the last call."""
        found = []
        data = self.wire.to_broker
        while len(data) - self.read_bytes >= 4:
            stop = self.read_bytes + 4 + struct.unpack_from(">i", data, self.read_bytes)[0]
            if stop > len(data):
                break
            found.append(data[self.read_bytes : stop])
            self.read_bytes = stop
        return found

    def serve(self, chunk: int = 1 << 18) -> RenewedLine:
        """Let the broker answer each request in order, one at a time, until none is left."""
        while frames := self.requests():
            for frame in frames:
                key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
                self.keys.append(key)
                if key in {f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE}:
                    self.wire.broker(self.sasl.answer(frame), chunk)
                else:
                    self.wire.broker(f.heartbeat_reply(correlation_id), chunk)
        self.wire.settle()
        return self

    def pass_time(self, elapsed_ms: int) -> RenewedLine:
        """Let time pass."""
        self.wire.advance(elapsed_ms)
        return self

    @property
    def muted(self) -> int:
        """Return the reasons for which the client is muted."""
        return self.wire.session.client.muted
