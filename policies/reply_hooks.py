"""Joins the hooks of several entries for replies: `on_response` comes back up the chain, `on_complete` follows it.

Rules:
- An entry that never judged the request, because one above it refused, hears neither.
- Of several throttles the largest counts. A body that replaces the reply's is what the entries above see.
- In mode `observe` a Throttle or a Replace is only reported.
- Where an entry takes a reply in turns, so does the chain: it pauses with the entry, and goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.api import FORWARD, InTurns, Throttle
from policies.hooks import COMPLETED
from policies.reply_verdicts import check_response, check_turns, replacement

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from policies.api import Forward, Outcome, Peer, Verdict
    from policies.hook_runner import HookRunner
    from policies.hooks import ChainRequest, ChainResponse, Entry, OnComplete, OnResponse
    from policies.responses import Replace, Result

    Observe = Callable[[str, Verdict, str, Peer, int], None]


class ResponseHook(NamedTuple):
    """An entry, its place among those with `on_request` (-1: it has none), and its `on_response`."""

    entry: Entry
    place: int
    on_response: Callable[..., Forward | Throttle | Replace | InTurns]
    hears_body: bool


class CompletionHook(NamedTuple):
    """The name of an entry, its place as in ResponseHook, and its `on_complete`."""

    name: str
    place: int
    on_complete: Callable[..., None]


def join_responses(
    hooks: Sequence[ResponseHook], hook_runner: HookRunner, observe: Observe
) -> OnResponse:
    """Return the `on_response` of these entries, in this order."""
    first = hooks[0]
    lone = len(hooks) == 1 and not first.entry.forwards_on_error
    if lone and first.place <= 0 and not first.hears_body:
        return first.on_response

    def on_response(
        request: ChainRequest, response: ChainResponse, peer: Peer, now_ms: int
    ) -> Forward | Throttle | Replace | InTurns:
        steps = judging(request, response, peer, now_ms)
        try:
            next(steps)
        except StopIteration as end:
            found: Forward | Throttle | Replace = end.value
            return found
        return InTurns(steps)

    def judging(
        request: ChainRequest, response: ChainResponse, peer: Peer, now_ms: int
    ) -> Generator[None, None, Forward | Throttle | Replace]:
        longest: Throttle | None = None
        newest: Replace | None = None
        for entry, place, call, hears_body in hooks:
            if place >= request.asked_up_to:
                continue  # the request was refused before this entry judged it
            try:
                found = call(request, response, peer, now_ms)
                if not isinstance(found, InTurns):
                    verdict = found
                else:
                    check_turns(hears_body=hears_body)
                    verdict = yield from found.steps
                if verdict is FORWARD:
                    continue
                check_response(verdict, hears_body=hears_body)
                new = replacement(verdict)
                if new is not None and entry.mode == "enforce":
                    response.replace(new.body)
                    newest = new
            except GeneratorExit:  # the session has ended meanwhile
                raise
            except BaseException as error:
                fault = hook_runner.fault(entry.name, "on_response", error)
                if not entry.forwards_on_error:
                    raise fault from error
                continue
            if entry.mode == "observe":
                observe(entry.name, verdict, request.api.name, peer, now_ms)
            elif isinstance(verdict, Throttle) and (
                longest is None or verdict.throttle_time_ms > longest.throttle_time_ms
            ):
                longest = verdict
        ends = newest or FORWARD
        return Throttle(longest.throttle_time_ms, ends, longest.why) if longest else ends

    return on_response


def join_completions(hooks: Sequence[CompletionHook], hook_runner: HookRunner) -> OnComplete:
    """Return the `on_complete` of these entries, in this order."""

    def on_complete(
        request: ChainRequest, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        limit, request.asked_up_to = request.asked_up_to, COMPLETED
        for name, place, call in hooks:
            if place < limit:
                try:
                    call(request, outcome, peer, result, now_ms)
                except BaseException as error:  # noqa: BLE001 - see `policies.hook_runner`
                    hook_runner.fault(name, "on_complete", error)

    return on_complete
