"""The contract of policies, the verdicts, and the peer, as the house imports them. Others import them from `sluice`.

Rules:

- A policy decides and the core enforces; neither does the work of the other.
- Hooks are synchronous and quick, do no I/O and read no clock: `now_ms` is an argument.
- Every hook has a default that does nothing. Override the hooks you need; the others cost nothing.
- There is one instance per config entry and process, in one thread, so no locks are needed.
- A request cannot be refused after its first byte was forwarded. So `needs` must say how much of the request
  `on_request` has to see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from policies.denial import Deny as Deny  # noqa: PLC0414 - re-exported: part of the contract
from policies.host_tools import HostTools
from policies.requests import ANONYMOUS as ANONYMOUS  # noqa: PLC0414 - re-exported: part of the contract
from policies.requests import Peer as Peer  # noqa: PLC0414, TC001 - as above
from policies.requests import Request as Request  # noqa: PLC0414, TC001 - as above
from policies.requests import UnreadableRequestError as UnreadableRequestError  # noqa: PLC0414 - as above
from policies.responses import PolicyRefusal as PolicyRefusal  # noqa: PLC0414 - as above
from policies.responses import Replace as Replace  # noqa: PLC0414 - as above
from policies.responses import Response as Response  # noqa: PLC0414 - as above
from policies.responses import Result as Result  # noqa: PLC0414 - as above
from wire.errors import RETRIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
    from typing import Self


class Need(IntEnum):
    """How much of a request is there when `on_request` is called."""

    HEADER = 0
    """The header; for Produce also `acks`. It costs nothing: the body is forwarded without being read."""
    HEAD = 1
    """The header and `request.head`. A Fetch head is complete at `on_request`. A Produce head has acks and timeout, and
    its topics fill while the body is forwarded (complete in `on_complete`)."""
    BODY = 2
    """The header, the head and `request.body`: the whole body is buffered, and counted, until the verdict. The topics
    of a Produce head are complete; one with more than 25,000 topics, partitions and tags ends the connection."""
    TOPICS = 3
    """As BODY, and `request.topics` and `request.groups`, read before the policy is asked. A request that cannot be
    read ends the connection; one with more than 25,000 array elements and tags is refused. Each Fetch names all its
    topics: the broker is asked to open no session (KIP-227), and a request that continues one is answered by
    FETCH_SESSION_ID_NOT_FOUND after the verdict. For an API that names no topic and no group it is HEADER."""


class Outcome(Enum):
    """How an admitted request ended; `on_complete` gets it once."""

    REPLIED = "replied"
    NO_REPLY = "no_reply"  # acks=0: no reply is expected
    ANSWERED = "answered"  # by a policy; the broker never saw it
    EXPIRED = "expired"
    DISCONNECTED = "disconnected"


@dataclass(frozen=True, slots=True)
class Patch:
    """Bytes that replace the request's bytes at `offset` from its body's start; the length stays."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Forward:
    """Forward the request. The chain continues with the next policy.

    `patches` need HEAD or BODY and change fixed-width fields in place. `body` needs BODY and replaces the whole
    body; this is the slow path, and no policy that is on by default uses it. `exempt`: see EXEMPT. `denials` are parts
    that are refused beside these changes; without changes, return the Deny itself.
    """

    patches: tuple[Patch, ...] = ()
    body: bytes | None = None
    exempt: bool = field(default=False, compare=False)
    denials: tuple[Deny, ...] = ()


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer with this body; the broker never sees the request. The chain stops.

    The core adds the reply's header. For a request without reply (acks=0) nothing is sent.
    """

    body: bytes
    refuses: Reject | None = field(default=None, compare=False)
    """Set if the body is a refusal in the API's own shape: its code and message, reported to operators."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Answer with this error code, in the API's own shape; then close if asked. The chain stops.

    A request without reply (acks=0), or of an API whose shape is unknown, closes the connection.
    """

    code: int
    close: bool | None = None
    """Whether the connection ends after the reply. None: only after a Produce with an error that clients retry. A
    client has sent more writes by then, and they would overtake the refused one. A broker that does not know the
    producer yet accepts them first, and then librdkafka takes the refused records for written (2.16, with Kafka 4.3).
    """
    message: str = field(default="", compare=False)
    """The reason in a few words, for the client, the log and the audit log; never a payload. At most 250 characters."""

    def closes(self, api_name: str) -> bool:
        """Return whether the connection ends after this answer to a request of the API."""
        if self.close is None:
            return api_name == "Produce" and self.code in RETRIABLE
        return self.close


FORWARD = Forward()
"""The most common verdict. Return this very object: the core compares by identity first."""

EXEMPT = Forward(exempt=True)
"""As FORWARD, for a request that no quota counts: the usage log shows it as exempt. A Forward that changes the request
does the same with `exempt=True`. If one policy exempts a request, it is exempt for all."""


class QuotaViolation(NamedTuple):
    """Why a client is throttled: for traces and other observers. No decision depends on it."""

    entity: str
    """The bucket's name for people."""
    quota: str
    """The limit: `request_rate`, `producer_byte_rate`, ..."""
    observed: float
    """The rate that led to the delay: always above `bound`."""
    bound: float
    """The limit. Both are per second."""
    policy: str = ""
    """Name of the config entry that gave the throttle."""


class EffectiveQuota(NamedTuple):
    """The request rate that a policy currently enforces on a user and client id: for the usage log."""

    enforcement: str
    entity: str
    rate: float
    """Requests per second."""
    rev: str
    """Changes when any limit changes."""


@dataclass(slots=True, unsafe_hash=True)  # frozen, it would take three times as long to make
class Throttle:
    """Do as `forward` says and mute the client's channel for this time, from now; the reply carries what remains of it.

    The chain continues; of several throttles the largest counts. The mute begins after the request's last byte. Do not
    change one that you have returned.
    """

    throttle_time_ms: int
    forward: Forward | Respond | Reject | Deny | Replace = FORWARD
    why: QuotaViolation | None = field(default=None, compare=False)


TOPIC_NAMES: Final = "topic_names"
"""The key of a Hold whose request names topics by ids that are not known. Sluice asks the broker for the names, and
the request is judged again when they have come; a topic without a name is unknown then. For Need.TOPICS."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Park the request and mute its channel, so that the order stays. The chain pauses here.

    When `host.wake(watch)` is called, the same policy judges the request again. At the deadline, or when the proxy
    drains, `then` applies instead, and the chain continues. If the client disconnects, `on_complete` is called.
    Traces show `str(watch)`.
    """

    max_delay_ms: int
    watch: Hashable
    then: Forward | Reject = FORWARD
    throttles: bool = False
    """Whether the wait is due to a quota: then it counts as throttle time, not as purgatory."""
    why: QuotaViolation | None = field(default=None, compare=False)


class InTurns:
    """A verdict of `on_response` on a large reply, in several steps: other clients have their turns between them.

    `steps` pauses after each, and returns the verdict. The request and the reply stay valid until then. Only for a
    reply whose body the policy hears.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: Generator[None, None, Forward | Throttle | Replace]) -> None:
        self.steps = steps

    def verdict(self) -> Forward | Throttle | Replace:
        """Return the verdict, after all steps that are left."""
        while True:
            try:
                next(self.steps)
            except StopIteration as end:
                found: Forward | Throttle | Replace = end.value
                return found


Gate: TypeAlias = "Callable[[int, int], bool]"
"""(size in bytes, now in ms) -> whether the request is forwarded. See `Policy.gate`."""
Verdict = Forward | Throttle | Hold | Respond | Reject | Deny | Replace


class PolicyConfigError(ValueError):
    """A policy refuses its settings. `path` is the key below the entry's `config`."""

    __module__ = "sluice"  # where others import it: a traceback says so

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)  # as they were given, so that it can be pickled
        self.path = path
        self.message = message

    def __str__(self) -> str:
        """Return the message, after the path."""
        return f"{self.path}: {self.message}" if self.path else self.message


class Services(Protocol):
    """The services that the proxy offers to every policy."""

    def wake(self, key: Hashable) -> int:
        """Have every request that is held for this watch key judged again, at once. Returns the number of requests."""

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Call `call(now_ms)` once at `at_ms`, in ms since the epoch. Raises TypeError for a wrong argument.

        The alarms of a policy that a reload has replaced are given up when the last request that it judged has ended.
        """

    def reconsider(self) -> None:
        """Read this policy's `apis`, `response_apis`, `hears_body` and `needs` again, because they have changed."""

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Shorten the throttles that this policy gave, after a limit has changed.

        `until_ms(peer, why)` returns until when the client has to be muted under the current limits. A later time
        than before changes nothing. Many clients are reviewed in several steps.
        """

    def speaks_as_itself(self) -> bool:
        """Return whether Sluice signs on to the brokers with credentials of its own: then they judge Sluice, and not
        the client (credential custody). True while there is no proxy, as in `__init__`.
        """

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id (16 bytes), which requests carry from Produce v13 and Fetch v13 on.

        None if no Metadata reply has named it to a client of this process. Names are read from replies while a policy
        has Need.TOPICS, or more than the header of Produce or Fetch. Refuse an unknown id by UNKNOWN_TOPIC_ID: the
        client asks for metadata, and tries again.
        """

    def load(self, path: str) -> bytes | None:
        """Return what `save` wrote to this path; None if there is no such file. Raises OSError if it cannot be read."""

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a regular file that others write. When it changes, a reload makes this policy again.

        Only `__init__` may call it. Raises OSError if it cannot be read, or has more than `max_bytes`.
        """

    def save(self, path: str, data: bytes) -> None:
        """Replace the file's content in one step.

        Raises OSError and leaves the file as it was if that fails. Use it rarely.
        """


class Host(Services, HostTools, Protocol):
    """The interface between one policy and the proxy."""

    @property
    def name(self) -> str:
        """The entry's name in the config."""

    @property
    def observes(self) -> bool:
        """Whether the entry's mode is `observe`: its verdicts are ignored, and it must change nothing by itself."""


class Policy:
    """The contract. Requests go down the chain in the order of the config file, replies come back up."""

    Config: ClassVar[type]
    """A frozen msgspec Struct; it is also the documentation of the settings."""
    apis: frozenset[int] | None = None
    """The API keys whose requests it judges; None = all. `__init__` may narrow it for the instance."""
    response_apis: frozenset[int] | None = None
    """Those of `apis` whose replies `on_response` gets; None = all of them."""
    hears_body: frozenset[int] = frozenset()
    """Those of `response_apis` whose replies are kept whole: `response.body`, `response.errors`, `result.errors`."""
    needs: Need | Mapping[int, Need] = Need.HEADER
    """How much of a request it needs; one value for all, or by API key (other keys: HEADER)."""
    max_versions: Mapping[int, int | None] = MappingProxyType({})
    """The newest version of an API that clients may use, by API key: later ones are neither offered nor accepted. None:
    ApiVersions leaves the API out, because `on_request` refuses its requests. Observing changes nothing."""
    tick_ms: int = 0
    """How often `on_tick` is called, in ms; 0 = never."""
    asked_first: bool = False
    """Whether `on_request` comes before that of all others, wherever the entry stands: for a policy that counts every
    request, also those that others refuse. It sees none of a sign-on: a connection's first ApiVersions, and the SASL
    requests that authenticate it or do so again."""
    answers: frozenset[int] = frozenset()
    """Those of `apis` whose requests `on_answer` gets, after `on_request`. They stay in ApiVersions where Sluice
    forwards them to no broker, because it brings its own credentials."""

    def __init__(self, config: object, host: Host) -> None:
        self.config = config
        self.host = host

    def adopt(self, previous: Self) -> None:
        """Take over the state of the entry of the same name and class, at a reload."""

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        """Return the request rate that this policy enforces on them; None if there is none.

        It is called once a second for every active user and client id.
        """
        return None

    def hints(self) -> Iterable[str]:
        """Return texts about settings that are valid but probably not intended; each begins with the key's path."""
        return ()

    def on_connect(self, peer: Peer, now_ms: int) -> Forward | Reject:
        """Judge a new connection. Reject closes it before a byte is read."""
        return FORWARD

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Judge one request. Called once, in order, before the request's first byte is forwarded."""
        return FORWARD

    def prepare(self, request: Request, peer: Peer) -> Iterable[None]:
        """Do beforehand and in steps what makes `on_request` quick, for a request that names more than 1,000 things.

        Between two elements of what it returns other clients have their turns, so a step takes 2 ms at most. It decides
        nothing: the client may leave before the end.
        """
        return ()

    def on_answer(
        self, request: Request, peer: Peer, now_ms: int
    ) -> Forward | Respond | Reject | Deny:
        """Answer one request of `answers`, in the order of the config file: those before this entry let it pass."""
        return FORWARD

    def gate(self, api_key: int, acks: int | None, peer: Peer) -> Gate | None:
        """Return a quick check of this client's requests of an API; None: each of them gets `on_request`.

        `gate(size_bytes, now_ms)` is called in place of `on_request`, by which the core saves the request object. True:
        it has done what `on_request` would have done, and the request is forwarded. Any other result: it has changed
        nothing, and `on_request` is called. It may be skipped for any request. It serves until this policy's interests
        change or it is replaced, so it must notice live changes of limits by itself.
        """
        return None

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle | Replace | InTurns:
        """Judge a reply just before it is sent: the broker's reply, or one that Sluice made."""
        return FORWARD

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        """Called exactly once for every request that `on_request` has judged."""

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Called when a client that passed `on_connect` has disconnected."""

    def on_tick(self, now_ms: int) -> None:
        """Called every `tick_ms`, between two requests."""

    def close(self) -> None:
        """Called when the process ends, or when a reload has removed this entry."""
