"""Joins the hooks of several entries for requests: `on_request` goes down the chain, and a held request continues it.

Rules:
- The first verdict that answers or refuses ends the chain; the policies that were called so far get `on_complete`.
- Of several throttles the largest counts; it applies to every kind of verdict.
- A Hold pauses the chain: the same entry judges the request again, and the chain continues from there.
- In mode `observe` a verdict is only reported.
- The functions refer to no chain: that would be a cycle, and the chain would stay in memory after a reload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.api import FORWARD, Forward, Hold, Policy, Throttle
from policies.denial import Deny
from policies.hooks import ASKED_ALL, ChainPosition
from policies.verdicts import VerdictError, check_patches, check_request, merge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.api import Peer, Verdict
    from policies.hook_runner import HookRunner
    from policies.hooks import ChainRequest, Entry
    from policies.reply_hooks import Observe

    OnRequest = Callable[[ChainRequest, Peer, int], Verdict]
    OnHoldOver = Callable[[ChainRequest, Peer, int, Verdict | None], Verdict]

_START = ChainPosition()


def join_preparations(
    asked: Sequence[Entry], hook_runner: HookRunner
) -> Callable[[ChainRequest, Peer], Iterator[None]] | None:
    """Return what calls `prepare` of these entries, in this order; None if none has it."""
    preparing = [each for each in asked if type(each.policy).prepare is not Policy.prepare]
    if not preparing:
        return None

    def prepare(request: ChainRequest, peer: Peer) -> Iterator[None]:
        for entry in preparing:
            try:
                yield from entry.policy.prepare(request, peer)
            except GeneratorExit:  # the client has left
                raise
            except BaseException as error:
                fault = hook_runner.fault(entry.name, "prepare", error)
                if not entry.forwards_on_error:
                    raise fault from error

    return prepare


def join_requests(
    asked: Sequence[Entry],
    calls: Sequence[Callable[..., Any]],
    hook_runner: HookRunner,
    observe: Observe,
) -> tuple[OnRequest, OnHoldOver]:
    """Return the `on_request` of these entries, in this order, and what continues a held request.

    `calls` are the hooks of `asked`, place by place.
    """

    def judge(
        request: ChainRequest,
        peer: Peer,
        now_ms: int,
        position: ChainPosition,
        verdict: Verdict | None,
    ) -> Verdict:
        place, joined, throttle_time_ms, why = position
        for entry in asked[place:]:
            place += 1
            if verdict is None:
                try:
                    verdict = calls[place - 1](request, peer, now_ms)
                    if verdict is not FORWARD:
                        check_request(verdict)
                        check_patches(verdict, request)
                except BaseException as error:
                    fault = hook_runner.fault(entry.name, "on_request", error)
                    if not entry.forwards_on_error:
                        request.asked_up_to = place
                        raise fault from error
                    verdict = FORWARD
            if verdict is not FORWARD:
                if entry.mode == "observe":
                    observe(entry.name, verdict, request.api.name, peer, now_ms)
                    verdict = FORWARD
                if isinstance(verdict, Throttle):
                    if verdict.throttle_time_ms > throttle_time_ms:
                        throttle_time_ms, why = verdict.throttle_time_ms, verdict.why
                    verdict = verdict.forward
                if isinstance(verdict, Forward | Deny):
                    joined = merge(joined, verdict, entry.name)
                else:
                    request.asked_up_to = place
                    if isinstance(verdict, Hold):
                        request.held = ChainPosition(place - 1, joined, throttle_time_ms, why)
                        return verdict
                    if throttle_time_ms:
                        return Throttle(throttle_time_ms, verdict, why)
                    return verdict
            verdict = None
        return Throttle(throttle_time_ms, joined, why) if throttle_time_ms else joined

    def on_request(request: ChainRequest, peer: Peer, now_ms: int) -> Verdict:
        return judge(request, peer, now_ms, _START, None)

    def on_hold_over(
        request: ChainRequest, peer: Peer, now_ms: int, verdict: Verdict | None
    ) -> Verdict:
        position, request.held = request.held or _START, None
        request.asked_up_to = ASKED_ALL
        return judge(request, peer, now_ms, position, verdict)

    if len(asked) == 1 and asked[0].mode == "enforce" and asked[0].on_error == "close":
        # The ordinary case costs one call: the caller passes its exceptions to `attribute_fault`.
        return calls[0], on_hold_over
    return on_request, on_hold_over


def never_holding(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `on_answer` with its own check: the chain resumes a held request at the entry's `on_request`."""

    def on_answer(request: ChainRequest, peer: Peer, now_ms: int) -> Verdict:
        verdict: Verdict = call(request, peer, now_ms)
        if isinstance(verdict, Hold | Throttle):
            kind = type(verdict).__name__
            raise VerdictError(f"on_answer returned a {kind}, which only on_request may return")
        return verdict

    return on_answer
