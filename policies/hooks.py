"""What the compiled chain offers for one API, and what it remembers of one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from policies.api import FORWARD, Forward, Need, Policy, Request, Throttle

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Outcome, Peer, QuotaViolation, Response, Verdict

ASKED_ALL = 1 << 30
"""`asked` of a request that no entry has refused or holds so far."""
COMPLETED = -1
"""`asked` of a request that has completed: no entry is told anything more about it."""


class ChainRequest(Request, Protocol):
    """A request that remembers how many entries were asked about it and where in the chain it is held."""

    asked: int
    held: ChainPosition | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the config's `policies`."""

    name: str
    policy: Policy
    mode: Literal["enforce", "observe"] = "enforce"
    on_error: Literal["close", "forward"] = "close"


class ChainPosition(NamedTuple):
    """Where in the chain a request is held, and the joined verdicts of the entries before that place."""

    place: int = 0
    joined: Forward = FORWARD
    throttle_time_ms: int = 0
    why: QuotaViolation | None = None


class Hooks(NamedTuple):
    """The hooks of one API, compiled over all entries; None where no entry has that hook."""

    need: Need = Need.HEADER
    on_request: Callable[[ChainRequest, Peer, int], Verdict] | None = None
    on_hold_over: Callable[[ChainRequest, Peer, int, Verdict | None], Verdict] | None = None
    """Resume a held request: ask the holding entry again, or take the verdict that is given as its answer."""
    on_response: Callable[[ChainRequest, Response, Peer, int], Forward | Throttle] | None = None
    on_complete: Callable[[ChainRequest, Outcome, int], None] | None = None
    asked: tuple[str, ...] = ()
    """Names of the entries that are asked, in order: `ChainPosition.place` counts along it."""
