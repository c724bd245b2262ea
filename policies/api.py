"""All that a policy author needs: the contract, the verdicts, and who is speaking.

Rules:
- A policy decides; the core enforces; neither does the work of the other.
- Hooks are synchronous and quick, do no I/O and read no clock: `now_ms` comes in as an argument.
- Every hook has a do-nothing default; override what you need. What nobody overrides costs nothing.
- One instance per config entry per process, one thread, no locks.
- Once the first byte of a request has gone on, it can no longer be refused. So `needs` says honestly
  how much of it must be there before `on_request` is asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from wire.apis import Api
    from wire.fetch import FetchHead
    from wire.produce import ProduceWalker


ANONYMOUS = "ANONYMOUS"
"""Kafka's name for who has not authenticated."""


class Need(IntEnum):
    """How much of a request is there when `on_request` is asked."""

    HEADER = 0
    """The header; for Produce also `acks`. Costs nothing: the body streams through unseen."""
    HEAD = 1
    """And `request.head`: the walked fields. A Fetch head is complete when asked; a Produce head
    knows acks and timeout, and its topics fill as the body streams by (complete in `on_complete`)."""
    BODY = 2
    """And `request.body`: the whole body, kept (and counted) until the verdict."""


class Outcome(Enum):
    """How an admitted request ended; told once, to `on_complete`."""

    REPLIED = "replied"
    NO_REPLY = "no_reply"  # acks=0: none is expected
    ANSWERED = "answered"  # by a policy; the broker never saw it
    EXPIRED = "expired"
    DISCONNECTED = "disconnected"


@dataclass(frozen=True, slots=True)
class Peer:
    """What we know of the speaker. Replaced when we learn more, never changed."""

    session_id: int
    host: str
    port: int
    node_id: int | None = None
    """The broker this connection stands for; None on the bootstrap port."""
    client_id: str = ""
    user: str = ANONYMOUS
    principal_source: str = "none"
    """Why we think so: `none` (nobody said), `sasl` (the broker agreed), `fixed` (the config says so),
    `unknown` (the broker agreed, but whom it means cannot be read from the wire)."""


class Request(Protocol):
    """One request, as far as `needs` asked for it. Valid only until `on_complete` returns."""

    @property
    def exchange_id(self) -> int:
        """Unique in this session; the same in every hook of one request."""

    @property
    def api(self) -> Api:
        """The table's facts of this API and version."""

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""

    @property
    def api_version(self) -> int:
        """The version the client chose."""

    @property
    def node_id(self) -> int | None:
        """The broker it is for; None on the bootstrap port."""

    @property
    def size_bytes(self) -> int:
        """Header and body, without the four bytes of length (as Kafka counts it)."""

    @property
    def acks(self) -> int | None:
        """Produce only: -1, 0 or 1."""

    @property
    def head(self) -> ProduceWalker | FetchHead | None:
        """With Need.HEAD or more, for Produce and Fetch."""

    @property
    def body(self) -> bytes | None:
        """With Need.BODY."""


class Response(Protocol):
    """The broker's reply, as it is about to leave for the client."""

    @property
    def size_bytes(self) -> int:
        """Header and body, without the four bytes of length."""

    @property
    def throttle_time_ms(self) -> int:
        """What the broker wrote; 0 where the response has no such field, or it has not come yet."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Fixed-width bytes laid over the request at `offset` from its body's start."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Forward:
    """Send it on. The chain goes on asking.

    `patches` need HEAD or BODY and change fixed-width fields in place. `body` needs BODY and replaces
    the whole body: the slow path, used by no policy that is on by default. `exempt`: see EXEMPT.
    """

    patches: tuple[Patch, ...] = ()
    body: bytes | None = None
    exempt: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Respond:
    """This body is the reply; the broker never sees the request. The chain stops.

    The reply's header is the core's work. For a request without reply (acks=0) nothing is sent.
    """

    body: bytes
    refuses: Reject | None = field(default=None, compare=False)
    """Where the body is a refusal in the API's own words: its code and message, told to operators as a Reject's are."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Answer with this error code, in that API's own shape; then close if asked. The chain stops.

    A request without reply (acks=0), or of an API whose shape is not known, closes the connection.
    """

    code: int
    close: bool = False
    message: str = field(default="", compare=False)
    """Why, in a few words, for the client, the log and the audit log: never a payload. At most 250 characters."""


FORWARD = Forward()
"""The usual verdict. Return this very object: the core compares by identity before it looks closer."""

EXEMPT = Forward(exempt=True)
"""As FORWARD, for a request that no quota counts: the usage log says so. A Forward that changes the request says the
same by `exempt=True`. What one policy exempts is exempt, whatever the others say."""


class QuotaViolation(NamedTuple):
    """Why someone is to be quiet: for traces and whoever looks on; nothing is decided by it."""

    entity: str
    """Whose bucket, for people."""
    quota: str
    """Which limit: `request_rate`, `producer_byte_rate`, ..."""
    observed: float
    """The rate that the delay followed from: always above `bound`."""
    bound: float
    """Both per second."""
    policy: str = ""
    """Name of the entry that gave the throttle."""


class EffectiveQuota(NamedTuple):
    """The request rate that a policy enforces on a user and client id now: for the usage log."""

    enforcement: str
    entity: str
    rate: float
    """Requests a second."""
    rev: str
    """Changes whenever any limit does."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """Let it pass, and be quiet: the client's channel is muted that long from now, and the reply carries
    what is left of it. The chain goes on; of several the largest counts.

    As a verdict on a request `forward` says how it goes on. The mute begins behind the request's last byte.
    """

    throttle_time_ms: int
    forward: Forward | Respond | Reject = FORWARD
    why: QuotaViolation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Hold:
    """Park it, its channel muted, so that order stays. The chain pauses here.

    When `host.wake(watch)` is called the same policy is asked again; at the deadline, or when the proxy
    drains, `then` is done instead, and the chain goes on. If the client leaves, `on_complete` tells.
    Traces say `str(watch)`.
    """

    max_delay_ms: int
    watch: Hashable
    then: Forward | Reject = FORWARD
    throttles: bool = False
    """The wait is a quota's: it counts as throttle time, not as purgatory."""
    why: QuotaViolation | None = field(default=None, compare=False)


Verdict = Forward | Throttle | Hold | Respond | Reject


class PolicyConfigError(ValueError):
    """A policy refuses its settings. `path` is the key below the entry's `config`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class Services(Protocol):
    """What the proxy does for all policies alike."""

    def wake(self, key: Hashable) -> int:
        """Ask again, at once, whatever is held for this watch key; how many that were."""

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Call `call(now_ms)` once when the time has come: a policy's own alarm clock."""

    def reconsider(self) -> None:
        """What this policy wants (`apis`, `response_apis`, `needs`) has changed: have the chain look again."""

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Shorten the throttles that this policy gave, after a limit has changed.

        `until_ms(peer, why)` says until when the client has to be quiet by what holds now. A later time than
        the client was given changes nothing. Many clients are reviewed a part at a time.
        """

    def load(self, path: str) -> bytes | None:
        """What `save` wrote there; None if nothing ever did."""

    def save(self, path: str, data: bytes) -> None:
        """Replace the file's content in one step, or raise OSError and leave it as it was. Rarely."""


class Host(Services, Protocol):
    """What one policy is given."""

    @property
    def name(self) -> str:
        """The entry's name in the config."""

    @property
    def observes(self) -> bool:
        """Whether the entry's mode is `observe`: the chain drops its verdicts, and it must change nothing by itself."""


class Policy:
    """The contract. Requests go down the chain in the order of the config file, replies come back up."""

    Config: ClassVar[type]
    """A frozen msgspec Struct; also the documentation of the settings."""
    apis: frozenset[int] | None = None
    """Which API keys it wants to see; None = all. May be narrowed per instance in `__init__`."""
    response_apis: frozenset[int] | None = None
    """Of those, the APIs whose responses it wants to hear of; None = all of them."""
    needs: Need | Mapping[int, Need] = Need.HEADER
    """How much must be there; one for all, or by API key (others: HEADER)."""
    tick_ms: int = 0
    """How often `on_tick` is wanted; 0 = never."""

    def __init__(self, config: object, host: Host) -> None:
        self.config = config
        self.host = host

    def adopt(self, previous: Policy) -> None:
        """At reload: take over the books of the entry of the same name."""

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        """The request rate that this policy holds them to. Asked once a second for whoever is active."""
        return None

    def on_connect(self, peer: Peer, now_ms: int) -> Forward | Reject:
        """A client has connected. Reject closes before a byte is read."""
        return FORWARD

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Judge one request. Asked once, in order, before its first byte goes on."""
        return FORWARD

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        """A reply is about to leave: the broker's, or one made here."""
        return FORWARD

    def on_complete(self, request: Request, outcome: Outcome, now_ms: int) -> None:
        """Told exactly once for every request that `on_request` was asked about."""

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """A client that passed `on_connect` is gone."""

    def on_tick(self, now_ms: int) -> None:
        """Every `tick_ms`, between two requests."""

    def close(self) -> None:
        """The process ends, or a reload left this entry out."""
