"""`admission`: no more than so many requests at a broker at once; the least important wait, then are shed.

    - use: admission
      config:
        max_in_flight_requests_per_node: 50
        max_queued_requests: 200                   # more than these are shed, the least important first
        max_wait_ms: 5000                # nobody waits longer
        importance:                       # the first rule that matches counts; default: 0
          - {user: billing, level: 10}
          - {client_id: report, api: Fetch, level: -10}

Rules:
- A place is taken when a request is let through, and given back when it completes, however it ends.
- Who finds no place waits in the queue of that broker: by importance, then by arrival. Its connection
  is not read meanwhile, so each has one place in the queue at most.
- Never held and never counted: what signs a client on and what keeps groups alive (`NEVER_HELD`); a
  Produce without acks, for nobody can tell when the broker is done with it; long polls, which cost the
  broker nothing while they wait.
- Who is shed gets THROTTLING_QUOTA_EXCEEDED in that API's shape. The broker never saw the request.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from policies.api import FORWARD, Hold, Need, Policy, PolicyConfigError, Reject
from policies.type_names import describe_value, nearest
from policies.validation import Problem
from wire.apis import OFFERED, ApiKey, key_of, name_of
from wire.errors import ErrorCode
from wire.fetch import FetchHead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.api import Forward, Host, Outcome, Peer, Request

NEVER_HELD: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    }
)
SHED: Final = Reject(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, message="the broker has as many requests as it may have"
)


class ImportanceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How important the requests are to which all that is given here applies."""

    user: str | None = None
    client_id: str | None = None
    """A claim, not a proof: whoever knows of the rule can use it."""
    api: str | None = None
    """Kafka's name: Produce, Metadata, ..."""
    level: Annotated[int, msgspec.Meta(ge=-1000, le=1000)]
    """Higher is more important; what no rule speaks of has 0."""

    def matches(self, peer: Peer, api_key: int) -> bool:
        """Whether it speaks of this request."""
        return (
            (self.user is None or self.user == peer.user)
            and (self.client_id is None or self.client_id == peer.client_id)
            and (self.api is None or key_of(self.api) == api_key)
        )

    def mistakes(self) -> Iterator[Problem]:
        """A rule that speaks of everything, or of what never waits."""
        if self.user is None and self.client_id is None and self.api is None:
            yield Problem("", "a rule for nobody", "user, client_id, api, or several of them")
        if self.api is not None:
            key = key_of(self.api)
            if key is None or key not in OFFERED:
                names = [name_of(each) for each in OFFERED]
                near = nearest(self.api, names)
                yield Problem("api", describe_value(self.api), "the name of a Kafka API", near)
            elif key in NEVER_HELD:
                yield Problem("api", describe_value(self.api), "an API that may have to wait")


class AdmissionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Only the bound itself has no default."""

    max_in_flight_requests_per_node: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    """Requests that a broker may have at once; the bootstrap port counts as a broker of its own."""
    max_queued_requests: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1000
    """Requests that may wait for a broker; 0: nobody waits."""
    max_wait_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 5000
    """How long one of them may."""
    importance: tuple[ImportanceRule, ...] = ()
    """Who goes first; the first rule that matches counts."""
    count_long_polls: bool = False
    """Whether fetches that may wait for records (max_wait and min_bytes above 0, and every ShareFetch)
    take a place and wait for one, as all others do."""


class _Broker:
    """What is at one broker, and who waits for it."""

    __slots__ = ("in_flight", "max_in_flight", "queues", "waiting", "waking")

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        self.in_flight = 0
        self.waiting = 0
        self.waking = False
        self.queues: dict[int, OrderedDict[_Ticket, None]] = {}  # by level; none is empty


class _Ticket:
    """A place in the queue of a broker; also the watch key of the request that is held with it."""

    __slots__ = ("broker", "is_shed", "level")

    def __init__(self, broker: _Broker, level: int) -> None:
        self.broker = broker
        self.level = level
        self.is_shed = False
        broker.queues.setdefault(level, OrderedDict())[self] = None
        broker.waiting += 1

    def __str__(self) -> str:
        return f"a place at the broker (level {self.level})"

    def leave(self) -> None:
        """Out of the queue, wherever it stands, if it still does."""
        queues = self.broker.queues
        queue = queues.get(self.level)
        if queue is not None and self in queue:
            del queue[self]
            self.broker.waiting -= 1
            if not queue:
                del queues[self.level]


class Admission(Policy):
    """See the module."""

    Config = AdmissionConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, AdmissionConfig):
            raise PolicyConfigError("", "not an AdmissionConfig")
        self._settings = config
        self._counts_polls = config.count_long_polls
        unseen: frozenset[int] = NEVER_HELD
        if not self._counts_polls:
            unseen |= {ApiKey.SHARE_FETCH}
            self.needs = {ApiKey.FETCH: Need.HEAD}
        self.apis = frozenset(OFFERED) - unseen
        self.shed = 0
        """How many requests were."""
        self._brokers: dict[int | None, _Broker] = {}
        # By the identity of the request, which is one and the same object until it completes.
        self._places: dict[int, _Broker] = {}
        self._tickets: dict[int, _Ticket] = {}

    def in_flight(self, node_id: int | None) -> int:
        """How many requests this broker has now."""
        broker = self._brokers.get(node_id)
        return broker.in_flight if broker else 0

    def waiting(self, node_id: int | None) -> int:
        """How many wait for it."""
        broker = self._brokers.get(node_id)
        return broker.waiting if broker else 0

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Hold | Reject:
        """Let it through if there is a place, or it has waited for one; else have it wait."""
        if self._tickets:
            ticket = self._tickets.pop(id(request), None)
            if ticket is not None:  # it was woken: with a place kept for it, or because it is shed
                if ticket.is_shed:
                    return self._refuse()
                self._places[id(request)] = ticket.broker
                return FORWARD
        if request.acks == 0:
            return FORWARD
        head = request.head
        if (
            not self._counts_polls
            and isinstance(head, FetchHead)
            and head.max_wait_ms > 0
            and head.min_bytes > 0
        ):
            return FORWARD
        broker = self._brokers.get(request.node_id)
        if broker is None:
            broker = _Broker(self._settings.max_in_flight_requests_per_node)
            self._brokers[request.node_id] = broker
        if broker.in_flight < broker.max_in_flight:
            broker.in_flight += 1
            self._places[id(request)] = broker
            return FORWARD
        return self._enqueue(broker, request, peer)

    def on_complete(self, request: Request, outcome: Outcome, now_ms: int) -> None:
        """Give its place back, at the broker or in the queue."""
        broker = self._places.pop(id(request), None)
        if broker is None:
            ticket = self._tickets.pop(id(request), None)
            if ticket is not None:
                ticket.leave()
                self.shed += outcome is outcome.ANSWERED  # its time was up, or the proxy drains
            return
        broker.in_flight -= 1
        if broker.queues:
            self._wake_next(broker)

    def adopt(self, previous: Policy) -> None:
        """The requests are the same, at the brokers and in the queues; the bound may be another."""
        if isinstance(previous, Admission):
            self._take_over(previous)

    def _take_over(self, previous: Admission) -> None:
        self.shed = previous.shed
        self._brokers = previous._brokers
        self._places = previous._places
        self._tickets = previous._tickets
        for broker in self._brokers.values():
            broker.max_in_flight = self._settings.max_in_flight_requests_per_node
            self._wake_next(broker)

    # -- the queue ----------------------------------------------------------------------------

    def _enqueue(self, broker: _Broker, request: Request, peer: Peer) -> Hold | Reject:
        level = self._level(peer, request.api_key)
        settings = self._settings
        if broker.waiting >= settings.max_queued_requests:
            least = min(broker.queues, default=level)
            if least >= level:
                return self._refuse()
            last = next(reversed(broker.queues[least]))
            last.leave()
            last.is_shed = True
            self.host.wake(last)  # none is there if its time is just up: then it is gone as well
        ticket = _Ticket(broker, level)
        self._tickets[id(request)] = ticket
        return Hold(settings.max_wait_ms, ticket, SHED)

    def _wake_next(self, broker: _Broker) -> None:
        """Wake whoever is first, while there is room. What is woken may complete on the spot."""
        if broker.waking:
            return
        broker.waking = True
        try:
            while broker.queues and broker.in_flight < broker.max_in_flight:
                first = next(iter(broker.queues[max(broker.queues)]))
                first.leave()
                broker.in_flight += 1  # kept for it
                if not self.host.wake(first):  # its client has gone, or its time is just up
                    broker.in_flight -= 1
        finally:
            broker.waking = False

    def _level(self, peer: Peer, api_key: int) -> int:
        for rule in self._settings.importance:
            if rule.matches(peer, api_key):
                return rule.level
        return 0

    def _refuse(self) -> Reject:
        self.shed += 1
        return SHED
