"""The hooks that the chain compiles for one API, and what the chain stores in a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from policies.api import FORWARD, Forward, Need, Policy, Request, Throttle
from policies.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.api import InTurns, Outcome, Peer, QuotaViolation, Verdict
    from policies.client_gate import ClientGate
    from policies.entry_tools import EntryTools
    from policies.responses import Replace, Result

    OnResponse = Callable[
        ["ChainRequest", "ChainResponse", Peer, int], Forward | Throttle | Replace | InTurns
    ]
    OpenGate = Callable[[int, int | None, Peer], ClientGate | None]
    """(API key, acks, client) -> its gate, or None. Raises PolicyFault."""
    OnComplete = Callable[["ChainRequest", Outcome, Peer, Result, int], None]

ASKED_ALL = 1 << 30
"""`asked_up_to` of a request that no entry has refused or holds so far."""
COMPLETED = -1
"""`asked_up_to` of a request that has completed: no hook is called for it any more."""


class ChainRequest(Request, Protocol):
    """A request with the number of entries that have judged it, and its place in the chain while it is held."""

    asked_up_to: int
    held: ChainPosition | None


class ChainResponse(Response, Protocol):
    """A reply whose body the chain replaces, so that the next entry sees the new one."""

    def replace(self, body: bytes) -> None:
        """Use this body from now on. Raises VerdictError, and changes nothing, if the throttle time cannot be found."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the config's `policies`."""

    name: str
    policy: Policy
    mode: Literal["enforce", "observe"] = "enforce"
    on_error: Literal["close", "forward"] = "close"
    tools: EntryTools | None = field(default=None, compare=False)
    """The tools of its host; None in tests that need none."""

    @property
    def forwards_on_error(self) -> bool:
        """Whether a request or reply passes when this entry is at fault."""
        return self.on_error == "forward" or self.mode == "observe"


class ChainPosition(NamedTuple):
    """The place in the chain where a request is held, and the joined verdicts of the entries before that place."""

    place: int = 0
    joined: Forward = FORWARD
    throttle_time_ms: int = 0
    why: QuotaViolation | None = None


class Lease:
    """Exists as long as a chain, or a request that it has admitted, may still call the chain's policies."""

    __slots__ = ("__weakref__",)


class Hooks(NamedTuple):
    """The hooks of one API, compiled over all entries; None if no entry has that hook."""

    need: Need = Need.HEADER
    on_request: Callable[[ChainRequest, Peer, int], Verdict] | None = None
    on_hold_over: Callable[[ChainRequest, Peer, int, Verdict | None], Verdict] | None = None
    """Resumes a held request: calls the holding entry again, or takes the given verdict as its answer."""
    on_response: OnResponse | None = None
    """A Replace in its verdict was done already, by `ChainResponse.replace`."""
    on_complete: OnComplete | None = None
    wants_head: bool = False
    """Whether an entry needs the head or the body, and not only the topics."""
    with_on_request: tuple[str, ...] = ()
    """Names of the entries whose `on_request` or `on_answer` is called, in order; one that has both is named twice.
    `ChainPosition.place` counts along it."""
    hears_body: tuple[Entry, ...] = ()
    """The entries that get the bodies of replies."""
    open_gate: OpenGate | None = None
    """Makes the gate of a client's requests (`policies.gates`)."""
    lease: Lease | None = None
    """The chain's; None if no entry has a hook."""
    prepare: Callable[[ChainRequest, Peer], Iterator[None]] | None = None
    """Comes before `on_request` of a large request. It pauses; raises PolicyFault."""


def adopt_metrics(entry: Entry, previous: Entry) -> None:
    """Let an entry continue the metrics of its namesake from before a reload."""
    if entry.tools is not None and previous.tools is not None:
        entry.tools.metrics.adopt(previous.tools.metrics)


def retire(entries: Iterable[Entry]) -> None:
    """Let policies that do not serve any more, or never did, watch no files."""
    for entry in entries:
        if entry.tools is not None:
            entry.tools.retire_tools()


def give_up_alarms(entries: Iterable[Entry]) -> None:
    """Call no alarms of policies whose chain's lease has ended: until then requests may need them."""
    for entry in entries:
        if entry.tools is not None:
            entry.tools.give_up_alarms()


def close_tools(entry: Entry) -> None:
    """Let a policy that is closed get no results and watch no files."""
    if entry.tools is not None:
        entry.tools.close_tools()
