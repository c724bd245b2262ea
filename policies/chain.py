"""Ask the policies in order, compiled per API key: an API that no policy wants costs nothing.

Rules:
- Requests go down the config's order, responses come back up it.
- The first verdict that is not Forward ends the asking; those asked so far hear `on_complete`.
- A policy that raises is a bug and is reported; `on_error` says whether its guard closes or yields.
- An entry in mode `observe` is asked like any other, but its refusals are only reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from policies.api import FORWARD, Forward, Need, Policy, Reject, Request
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.api import Outcome, Peer, Response, Verdict

ASKED_ALL = 1 << 30
"""`asked` of a request that no entry has refused (yet)."""


class Judged(Request, Protocol):
    """A request that remembers how many entries were asked about it."""

    asked: int


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


class Hooks(NamedTuple):
    """What the chain wants of one API. None = nobody asked."""

    need: Need = Need.HEADER
    on_request: Callable[[Judged, Peer, int], Verdict] | None = None
    on_response: Callable[[Judged, Response, Peer, int], Forward] | None = None
    on_complete: Callable[[Judged, Outcome, int], None] | None = None


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

    def blame(self, api_key: int, error: Exception) -> PolicyFault:
        """What a lone policy's on_request raised, reported and turned into the fault that closes."""
        if isinstance(error, PolicyFault):
            return error
        entry = next(e for e in self.entries if _wants(e.policy, api_key, "on_request"))
        self._reporter.on_policy_error(entry.name, "on_request", error)
        return PolicyFault(entry.name, "on_request")

    def tick(self, entry: Entry, now_ms: int) -> None:
        """Run one entry's `on_tick`; its errors are reported, never raised."""
        self._tell(entry, "on_tick", now_ms)

    def close(self) -> None:
        """Close every policy, last first."""
        for entry in reversed(self.entries):
            self._tell(entry, "close")

    # -- compiling ---------------------------------------------------------------------------

    def _compile(self, api_key: int) -> Hooks:
        wanted = [e for e in self.entries if e.policy.apis is None or api_key in e.policy.apis]
        asked = [e for e in wanted if _overrides(e.policy, "on_request")]
        heard = [e for e in wanted if _overrides(e.policy, "on_response")]
        told = [e for e in wanted if _overrides(e.policy, "on_complete")]
        using = (e for e in wanted if e in asked or e in heard or e in told)
        need = max((_need(e.policy, api_key) for e in using), default=Need.HEADER)
        return Hooks(
            need=need,
            on_request=self._join_requests(asked) if asked else None,
            on_response=self._join_responses(heard[::-1]) if heard else None,
            on_complete=self._join_completions(told, asked) if told else None,
        )

    def _join_requests(self, asked: Sequence[Entry]) -> Callable[[Judged, Peer, int], Verdict]:
        guard = self._guard
        report = self._reporter.on_policy_observed

        def on_request(request: Judged, peer: Peer, now_ms: int) -> Verdict:
            joined: Forward = FORWARD
            for place, entry in enumerate(asked):
                try:
                    verdict = guard(entry, "on_request", FORWARD, request, peer, now_ms)
                except PolicyFault:
                    request.asked = place + 1
                    raise
                if verdict is FORWARD:
                    continue
                if entry.mode == "observe":
                    report(entry.name, verdict)
                elif isinstance(verdict, Forward):
                    joined = Forward(
                        joined.patches + verdict.patches,
                        joined.body if verdict.body is None else verdict.body,
                    )
                else:
                    request.asked = place + 1
                    return verdict
            return joined

        if len(asked) == 1 and asked[0].mode == "enforce" and asked[0].on_error == "close":
            # The ordinary case costs one call: the caller hands what it raises to `blame`.
            return asked[0].policy.on_request
        return on_request

    def _join_responses(
        self, heard: Sequence[Entry]
    ) -> Callable[[Judged, Response, Peer, int], Forward]:
        guard = self._guard

        def on_response(request: Judged, response: Response, peer: Peer, now_ms: int) -> Forward:
            for entry in heard:
                guard(entry, "on_response", FORWARD, request, response, peer, now_ms)
            return FORWARD

        return on_response

    def _join_completions(
        self, told: Sequence[Entry], asked: Sequence[Entry]
    ) -> Callable[[Judged, Outcome, int], None]:
        order = {id(entry): place for place, entry in enumerate(asked)}
        # An entry without on_request is told of every request; the others of those they were asked about.
        places = [(entry, order.get(id(entry), -1)) for entry in told]
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
    return (policy.apis is None or api_key in policy.apis) and _overrides(policy, hook)


def _need(policy: Policy, api_key: int) -> Need:
    needs = policy.needs
    return needs if isinstance(needs, Need) else needs.get(api_key, Need.HEADER)
