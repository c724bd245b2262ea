"""Ask the policies in order, compiled per API key: an API that no policy wants costs nothing.

Rules:
- Requests go down the config's order, responses come back up it.
- The first verdict that answers or refuses ends the asking; those asked so far hear `on_complete`.
- Of several throttles the largest counts; it holds however the request goes on.
- A Hold pauses the asking: the same entry is asked again, and from there the chain goes on.
- A policy that raises is a bug and is reported; `on_error` says whether its guard closes or yields.
- An entry in mode `observe` is asked like any other, but its refusals are only reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from policies.api import EXEMPT, FORWARD, Forward, Hold, Need, Policy, Reject, Request, Throttle
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from policies.api import Excess, Outcome, Peer, Response, Verdict

ASKED_ALL = 1 << 30
"""`asked` of a request that no entry has refused or holds (yet)."""


class Judged(Request, Protocol):
    """A request that remembers how many entries were asked about it, and where it is held."""

    asked: int
    held: Walk | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the config's `policies`."""

    name: str
    policy: Policy
    mode: Literal["enforce", "observe"] = "enforce"
    on_error: Literal["close", "forward"] = "close"


class PolicyFault(Exception):  # noqa: N818 - the house's word: a fault, not an error of the peer
    """A policy raised and its entry says `on_error: close`."""

    def __init__(self, name: str, hook: str) -> None:
        super().__init__(f"policy {name!r} raised in {hook}")
        self.name = name
        self.hook = hook


class Reporter(Protocol):
    """Who hears of policies that misbehave or would have refused."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """The policy raised; `error` is what."""

    def on_policy_observed(self, name: str, verdict: Verdict) -> None:
        """An entry in mode `observe` would have done this."""


class Walk(NamedTuple):
    """How far down the chain a held request has come, and what it has gathered on the way."""

    place: int = 0
    joined: Forward = FORWARD
    throttle_time_ms: int = 0
    why: Excess | None = None


class Hooks(NamedTuple):
    """What the chain wants of one API. None = nobody asked."""

    need: Need = Need.HEADER
    on_request: Callable[[Judged, Peer, int], Verdict] | None = None
    on_hold_over: Callable[[Judged, Peer, int, Verdict | None], Verdict] | None = None
    """Go on with a held request: ask the holder again, or (not None) take this as its verdict."""
    on_response: Callable[[Judged, Response, Peer, int], Forward | Throttle] | None = None
    on_complete: Callable[[Judged, Outcome, int], None] | None = None
    asked: tuple[str, ...] = ()
    """Who is asked, in order: what the places of a Walk mean."""


_START = Walk()


class Chain:
    """The compiled order of policies. Immutable; a reload builds a new one beside it."""

    def __init__(self, entries: Sequence[Entry], reporter: Reporter) -> None:
        self.entries = tuple(entries)
        self._reporter = reporter
        self._hooks: dict[int, Hooks] = {}

    def hooks(self, api_key: int) -> Hooks:
        """Compile (once) what is asked of requests with this key."""
        found = self._hooks.get(api_key)
        if found is None:
            found = self._hooks[api_key] = self._compile(api_key)
        return found

    def on_connect(self, peer: Peer, now_ms: int) -> Reject | None:
        """Ask every entry; the first refusal wins, and a guard that raises refuses.

        Who had let the client in before it was refused hears `on_disconnect`.
        """
        passed: list[Entry] = []
        for entry in self.entries:
            if not _overrides(entry.policy, "on_connect"):
                continue
            try:
                verdict = self._guard(entry, "on_connect", FORWARD, peer, now_ms)
            except PolicyFault:
                verdict = Reject(ErrorCode.UNKNOWN_SERVER_ERROR, close=True)
            if isinstance(verdict, Reject):
                if entry.mode == "enforce":
                    for earlier in passed:
                        self._tell(earlier, "on_disconnect", peer, now_ms)
                    return verdict
                self._reporter.on_policy_observed(entry.name, verdict)
            passed.append(entry)
        return None

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Tell every entry."""
        for entry in self.entries:
            if _overrides(entry.policy, "on_disconnect"):
                self._tell(entry, "on_disconnect", peer, now_ms)

    def reconsider(self) -> None:
        """A policy's wishes have changed: compile anew what is asked for from now on."""
        self._hooks.clear()

    def moved(
        self, api_key: int, walk: Walk, before: Hooks, gone: Collection[str]
    ) -> tuple[Hooks, Walk, bool] | None:
        """How a request that was held under other hooks goes on here, and whether its holder is still there.

        None: more of it would have to be seen than is here. `gone` are entries whose namesake here is another policy.
        """
        hooks = self.hooks(api_key)
        if hooks.need > before.need:
            return None
        holder = before.asked[walk.place]
        if holder in hooks.asked and holder not in gone:
            return hooks, walk._replace(place=hooks.asked.index(holder)), True
        had_their_say = set(before.asked[: walk.place + 1]) - set(gone)
        places = (n + 1 for n, name in enumerate(hooks.asked) if name in had_their_say)
        return hooks, walk._replace(place=max(places, default=0)), False

    def blame(self, api_key: int, hook: str, error: Exception) -> PolicyFault:
        """What a lone policy's hook raised, reported and turned into the fault that closes."""
        if isinstance(error, PolicyFault):
            return error
        able = [e for e in self.entries if _overrides(e.policy, hook)]
        # It was asked as it wished then; meanwhile it may wish for less (`reconsider`).
        entry = next((e for e in able if _wants(e.policy, api_key, hook)), able[0])
        self._reporter.on_policy_error(entry.name, hook, error)
        return PolicyFault(entry.name, hook)

    def tick(self, entry: Entry, now_ms: int) -> None:
        """Run one entry's `on_tick`; its errors are reported, never raised."""
        self._tell(entry, "on_tick", now_ms)

    def close(self) -> None:
        """Close every policy, last first."""
        for entry in reversed(self.entries):
            self._tell(entry, "close")

    # -- compiling ---------------------------------------------------------------------------

    def _compile(self, api_key: int) -> Hooks:
        wanted = [e for e in self.entries if _wants(e.policy, api_key, "")]
        asked = [e for e in wanted if _overrides(e.policy, "on_request")]
        heard = [e for e in wanted if _wants(e.policy, api_key, "on_response")]
        told = [e for e in wanted if _overrides(e.policy, "on_complete")]
        using = (e for e in wanted if e in asked or e in heard or e in told)
        need = max((_need(e.policy, api_key) for e in using), default=Need.HEADER)
        on_request, on_hold_over = self._join_requests(asked) if asked else (None, None)
        return Hooks(
            need=need,
            on_request=on_request,
            on_hold_over=on_hold_over,
            on_response=self._join_responses(heard[::-1], asked) if heard else None,
            on_complete=self._join_completions(told, asked) if told else None,
            asked=tuple(entry.name for entry in asked),
        )

    def _join_requests(
        self, asked: Sequence[Entry]
    ) -> tuple[
        Callable[[Judged, Peer, int], Verdict],
        Callable[[Judged, Peer, int, Verdict | None], Verdict],
    ]:
        def go_on(
            request: Judged, peer: Peer, now_ms: int, walk: Walk, verdict: Verdict | None
        ) -> Verdict:
            place, joined, throttle_time_ms, why = walk
            for entry in asked[place:]:
                place += 1
                if verdict is None:
                    try:
                        verdict = self._guard(entry, "on_request", FORWARD, request, peer, now_ms)
                    except PolicyFault:
                        request.asked = place
                        raise
                if verdict is not FORWARD:
                    if entry.mode == "observe":
                        self._reporter.on_policy_observed(entry.name, verdict)
                        verdict = FORWARD
                    if isinstance(verdict, Throttle):
                        if verdict.throttle_time_ms > throttle_time_ms:
                            throttle_time_ms, why = verdict.throttle_time_ms, verdict.why
                        verdict = verdict.forward
                    if isinstance(verdict, Forward):
                        joined = _join(joined, verdict)
                    else:
                        request.asked = place
                        if isinstance(verdict, Hold):
                            request.held = Walk(place - 1, joined, throttle_time_ms, why)
                            return verdict
                        if throttle_time_ms:
                            return Throttle(throttle_time_ms, verdict, why)
                        return verdict
                verdict = None
            return Throttle(throttle_time_ms, joined, why) if throttle_time_ms else joined

        def on_request(request: Judged, peer: Peer, now_ms: int) -> Verdict:
            return go_on(request, peer, now_ms, _START, None)

        def on_hold_over(
            request: Judged, peer: Peer, now_ms: int, verdict: Verdict | None
        ) -> Verdict:
            walk, request.held = request.held or _START, None
            request.asked = ASKED_ALL
            return go_on(request, peer, now_ms, walk, verdict)

        if len(asked) == 1 and asked[0].mode == "enforce" and asked[0].on_error == "close":
            # The ordinary case costs one call: the caller hands what it raises to `blame`.
            return asked[0].policy.on_request, on_hold_over
        return on_request, on_hold_over

    def _join_responses(
        self, heard: Sequence[Entry], asked: Sequence[Entry]
    ) -> Callable[[Judged, Response, Peer, int], Forward | Throttle]:
        places = [(entry, _place(entry, asked)) for entry in heard]

        def on_response(
            request: Judged, response: Response, peer: Peer, now_ms: int
        ) -> Forward | Throttle:
            largest: Forward | Throttle = FORWARD
            for entry, place in places:
                if place >= request.asked:
                    continue  # refused before its turn came
                verdict = self._guard(
                    entry, "on_response", FORWARD, request, response, peer, now_ms
                )
                if isinstance(verdict, Throttle):
                    if entry.mode == "observe":
                        self._reporter.on_policy_observed(entry.name, verdict)
                    elif (
                        not isinstance(largest, Throttle)
                        or verdict.throttle_time_ms > largest.throttle_time_ms
                    ):
                        largest = verdict
            return largest

        entry, place = places[0]
        lone = len(heard) == 1 and entry.mode == "enforce" and entry.on_error == "close"
        if lone and place <= 0:
            return entry.policy.on_response
        return on_response

    def _join_completions(
        self, told: Sequence[Entry], asked: Sequence[Entry]
    ) -> Callable[[Judged, Outcome, int], None]:
        places = [(entry, _place(entry, asked)) for entry in told]
        tell = self._tell

        def on_complete(request: Judged, outcome: Outcome, now_ms: int) -> None:
            limit = request.asked
            for entry, place in places:
                if place < limit:
                    tell(entry, "on_complete", request, outcome, now_ms)

        return on_complete

    # -- calling -----------------------------------------------------------------------------

    def _guard(self, entry: Entry, hook: str, default: Verdict, *args: object) -> Verdict:
        try:
            verdict: Verdict = getattr(entry.policy, hook)(*args)
        except Exception as error:
            self._reporter.on_policy_error(entry.name, hook, error)
            if entry.on_error == "close" and entry.mode == "enforce":
                raise PolicyFault(entry.name, hook) from error
            return default
        return verdict

    def _tell(self, entry: Entry, hook: str, *args: object) -> None:
        try:
            getattr(entry.policy, hook)(*args)
        except Exception as error:  # noqa: BLE001 - whatever a policy raises, the books go on
            self._reporter.on_policy_error(entry.name, hook, error)


def _overrides(policy: Policy, hook: str) -> bool:
    return getattr(type(policy), hook) is not getattr(Policy, hook)


def _wants(policy: Policy, api_key: int, hook: str) -> bool:
    """Whether the policy cares for this API, and (if one is named) has this hook for it."""
    if policy.apis is not None and api_key not in policy.apis:
        return False
    if hook == "on_response" and policy.hears is not None and api_key not in policy.hears:
        return False
    return not hook or _overrides(policy, hook)


def _place(entry: Entry, asked: Sequence[Entry]) -> int:
    """Its place among those who are asked. -1: it is never asked, so it hears of every request."""
    return asked.index(entry) if entry in asked else -1


def _join(first: Forward, second: Forward) -> Forward:
    if first is FORWARD or first is EXEMPT:
        return second
    if second is EXEMPT:
        return first
    body = first.body if second.body is None else second.body
    return Forward(first.patches + second.patches, body)


def _need(policy: Policy, api_key: int) -> Need:
    needs = policy.needs
    return needs if isinstance(needs, Need) else needs.get(api_key, Need.HEADER)
