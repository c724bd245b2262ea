"""`admission`: limits the requests in flight at each broker; the least important wait, then are rejected.

    - use: admission
      config:
        max_in_flight_requests_per_node: 50
        max_queued_requests: 200          # more are rejected, the least important first
        max_wait_ms: 5000                 # no request waits longer
        importance:                       # the first rule that matches counts; default: 0
          - {user: billing, level: 10}
          - {client_id: report, api: Fetch, level: -10}

Rules:
- A place is taken when a request is forwarded, and freed when it completes in any way.
- A request without a place waits in the queue of its broker: by importance, then by arrival. Its connection is not read
  meanwhile, so each connection has at most one place in the queue.
- Some requests are never held and never counted: those of sign-on and of group membership (`NEVER_HELD`); a Produce
  without acks, because its end at the broker cannot be seen; and long polls, which cost the broker nothing while they
  wait.
- A rejected request gets THROTTLING_QUOTA_EXCEEDED in its API's shape. The broker never saw it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from policies.api import FORWARD, Hold, Need, Policy, PolicyConfigError, Reject
from policies.type_names import describe_value, nearest
from policies.validation import Problem
from policies.verdicts import short_repr
from wire.apis import OFFERED, SIGN_ON, ApiKey, key_of, name_of
from wire.errors import ErrorCode
from wire.fetch import FetchHead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.api import Forward, Host, Outcome, Peer, Request, Result

NEVER_HELD: Final = frozenset(
    {
        *SIGN_ON,
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
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, message="the broker has its maximum of requests in flight"
)


class ImportanceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The importance of the requests that match every given field."""

    user: str | None = None
    """A principal's name; none: every user."""
    client_id: str | None = None
    """None: every client. Client ids are not authenticated: any client that knows of the rule can use it."""
    api: str | None = None
    """Kafka's name: Produce, Metadata, ..."""
    level: Annotated[int, msgspec.Meta(ge=-1000, le=1000)]
    """Higher is more important; requests that no rule matches have 0."""

    def matches(self, peer: Peer, api_key: int) -> bool:
        """Return whether the rule applies to this request."""
        return (
            (self.user is None or self.user == peer.user)
            and (self.client_id is None or self.client_id == peer.client_id)
            and (self.api is None or key_of(self.api) == api_key)
        )

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a rule that matches everything, and for one about requests that never wait."""
        if self.user is None and self.client_id is None and self.api is None:
            yield Problem(
                "", "a rule without a condition", "user, client_id, api, or several of them"
            )
        if self.api is not None:
            key = key_of(self.api)
            if key is None or key not in OFFERED:
                names = [name_of(each) for each in OFFERED]
                near = nearest(self.api, names)
                yield Problem("api", describe_value(self.api), "the name of a Kafka API", near)
            elif key in NEVER_HELD:
                yield Problem("api", describe_value(self.api), "an API that may have to wait")


class AdmissionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of the policy. Only the limit itself has no default."""

    max_in_flight_requests_per_node: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    """Requests that a broker may have at once; the bootstrap port counts as a broker of its own."""
    max_queued_requests: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1000
    """Requests that may wait for a broker; 0: none waits."""
    max_wait_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 5000
    """The longest wait of a request in ms."""
    importance: tuple[ImportanceRule, ...] = ()
    """Which requests go first; the first rule that matches counts."""
    count_long_polls: bool = False
    """Whether fetches that may wait for records (max_wait and min_bytes above 0, and every ShareFetch) take a place and
    wait for one, as all other requests do."""


class _Broker:
    """The requests in flight at one broker, and the queue for it."""

    __slots__ = ("in_flight", "max_in_flight", "queues", "waiting", "waking")

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        self.in_flight = 0
        self.waiting = 0
        self.waking = False
        self.queues: dict[int, OrderedDict[_Ticket, None]] = {}  # by level; none is empty


class _Ticket:
    """A place in the queue of a broker; also the watch key of the held request."""

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
        """Leave the queue, from any place in it; no effect if the ticket has left before."""
        queues = self.broker.queues
        queue = queues.get(self.level)
        if queue is not None and self in queue:
            del queue[self]
            self.broker.waiting -= 1
            if not queue:
                del queues[self.level]


class Admission(Policy):
    """Holds and rejects requests when a broker has too many in flight."""

    Config = AdmissionConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, AdmissionConfig):
            raise PolicyConfigError("", f"expected an AdmissionConfig, got {short_repr(config)}")
        self._settings = config
        self._counts_polls = config.count_long_polls
        unseen: frozenset[int] = NEVER_HELD
        if not self._counts_polls:
            unseen |= {ApiKey.SHARE_FETCH}
            self.needs = {ApiKey.FETCH: Need.HEAD}
        self.apis = frozenset(OFFERED) - unseen
        self.shed = 0
        """Number of requests that were rejected."""
        self._brokers: dict[int | None, _Broker] = {}
        # By the identity of the request, which is one and the same object until it completes.
        self._places: dict[int, _Broker] = {}
        self._tickets: dict[int, _Ticket] = {}

    def in_flight(self, node_id: int | None) -> int:
        """Return the number of requests in flight at this broker."""
        broker = self._brokers.get(node_id)
        return broker.in_flight if broker else 0

    def waiting(self, node_id: int | None) -> int:
        """Return the number of requests in the queue of this broker."""
        broker = self._brokers.get(node_id)
        return broker.waiting if broker else 0

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Hold | Reject:
        """Forward the request if there is a place or one was kept for it; else hold or reject it."""
        if self._tickets:
            ticket = self._tickets.pop(id(request), None)
            if ticket is not None:  # woken: a place is kept for it, or it is rejected
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

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        """Free the request's place, at the broker or in the queue."""
        broker = self._places.pop(id(request), None)
        if broker is None:
            ticket = self._tickets.pop(id(request), None)
            if ticket is not None:
                ticket.leave()
                self.shed += (
                    outcome is outcome.ANSWERED
                )  # its wait has expired, or the proxy drains
            return
        broker.in_flight -= 1
        if broker.queues:
            self._wake_next(broker)

    def adopt(self, previous: Policy) -> None:
        """Take over the requests in flight and the queues. The limit may differ."""
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

    # -- the queue ---------------------------------------------------------------------------

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
            self.host.wake(
                last
            )  # no effect if its wait has just expired: then it has ended already
        ticket = _Ticket(broker, level)
        self._tickets[id(request)] = ticket
        return Hold(settings.max_wait_ms, ticket, SHED)

    def _wake_next(self, broker: _Broker) -> None:
        """Wake the first requests of the queue while there is room. A woken request may complete at once."""
        if broker.waking:
            return
        broker.waking = True
        try:
            while broker.queues and broker.in_flight < broker.max_in_flight:
                first = next(iter(broker.queues[max(broker.queues)]))
                first.leave()
                broker.in_flight += 1  # its place
                if not self.host.wake(first):  # its client has left, or its wait has just expired
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
