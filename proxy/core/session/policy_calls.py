"""The policy chain, asked about requests and replies: one object for all sessions of a process.

Rules:
- Each verdict is checked where it comes in. A bad one, or an exception, is the policy's fault, and is named as such.
- A request ends once: the first outcome counts, even if a call raises.
- An exemption (no quota counts the request) is noted, and removed from the verdict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Forward, InTurns, Outcome, Throttle
from policies.chain import COMPLETED, PolicyFault
from policies.reply_verdicts import check_response
from policies.responses import UNKNOWN, Result
from policies.verdicts import VerdictError, check_request, without_exemption
from proxy.core.errors import ORDINARY, BrokerProtocolError
from proxy.core.session.exchange import NOT_DELAYED, ObservedExchange, observed
from proxy.core.session.reply import Reply
from proxy.core.session.traces import finish_trace, trace_of
from proxy.core.stats.meters import DELAY

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from policies.api import Verdict
    from proxy.core.errors import CloseReason
    from proxy.core.session.exchange import Exchange
    from proxy.core.session.shared_state import SharedState

_REPLIED: Final = Outcome.REPLIED
"""A member of an enum is found more slowly."""


class PolicyCalls:
    """Asks `shared.chain`, which a reload replaces; an exchange keeps the hooks that its plan has."""

    __slots__ = ("_shared",)

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared

    def ask(self, exchange: ObservedExchange, now_ms: int) -> Verdict:
        """Return the verdict on a request. Raises PolicyFault; then the request has ended."""
        capture = self._shared.capture
        if capture is not None:
            capture.ask(exchange, now_ms)
        plan = exchange.plan
        on_request = plan.hooks.on_request
        if on_request is None:
            return FORWARD
        try:
            verdict = on_request(exchange, plan.peer, now_ms)
            if verdict is not FORWARD:
                check_request(verdict)
            if exchange.seen is not None:
                exchange.seen.judged(verdict)
            if verdict is not FORWARD:
                verdict = self.without_exemption(exchange, verdict)
        except BaseException as error:  # `policies.hook_runner` says why
            raise self.blame(exchange, error, now_ms) from error
        return verdict

    def preparing(self, exchange: ObservedExchange, now_ms: int) -> Iterator[None]:
        """Have the policies prepare the judgement of a large request, with pauses.

        Raises PolicyFault; then the request has ended.
        """
        prepare = exchange.plan.hooks.prepare
        if prepare is None:
            return
        try:
            yield from prepare(exchange, exchange.plan.peer)
        except PolicyFault as error:
            raise self.blame(exchange, error, now_ms, "prepare") from error

    def ask_again(
        self, exchange: ObservedExchange, verdict: Verdict | None, now_ms: int
    ) -> Verdict:
        """Return the verdict on a request that was held: its policy is asked, or `verdict` replaces the answer.

        Raises PolicyFault; then the request has ended.
        """
        on_hold_over = exchange.plan.hooks.on_hold_over
        if on_hold_over is None:  # a reload has removed its holder, and no other policy asks for it
            return verdict or FORWARD
        try:
            verdict = on_hold_over(exchange, exchange.plan.peer, now_ms, verdict)
            check_request(verdict)
            if exchange.seen is not None:
                exchange.seen.judged_again(verdict, now_ms)
            verdict = self.without_exemption(exchange, verdict)
        except BaseException as error:
            raise self.blame(exchange, error, now_ms) from error
        return verdict

    def on_response(self, exchange: ObservedExchange, reply: Reply, now_ms: int) -> Throttle | None:
        """Tell the chain that a reply is about to leave; return how long the client is to be throttled for it.

        Raises PolicyFault; the request has not ended then.
        """
        on_response = exchange.plan.hooks.on_response
        if on_response is None:
            return None
        try:
            verdict = on_response(exchange, reply, exchange.plan.peer, now_ms)
            if verdict is not FORWARD:
                check_response(verdict, hears_body=bool(exchange.plan.hooks.hears_body))
        except BaseException as error:
            api_key = exchange.plan.api.key
            raise self._shared.chain.attribute_fault(api_key, "on_response", error) from error
        if exchange.seen is not None:
            exchange.seen.on_response(reply, verdict, now_ms)
        return verdict if isinstance(verdict, Throttle) else None

    def hearing(
        self, exchange: ObservedExchange, reply: Reply, now_ms: int
    ) -> Generator[None, None, tuple[Throttle | None, bytearray | None]]:
        """Do as `on_response`, for a reply whose body policies hear. Return its frame, too, if they have changed it.

        It pauses where a policy takes the reply in turns. `on_complete` gets the errors of the reply as the client
        gets it.
        """
        on_response = exchange.plan.hooks.on_response
        verdict: Throttle | None = None
        if on_response is not None:
            try:
                found = on_response(exchange, reply, exchange.plan.peer, now_ms)
                if type(found) is InTurns:
                    found = yield from found.steps
                if found is not FORWARD:
                    check_response(found)
            except GeneratorExit:  # the session has ended meanwhile
                raise
            except BaseException as error:
                api_key = exchange.plan.api.key
                raise self._shared.chain.attribute_fault(api_key, "on_response", error) from error
            if exchange.seen is not None:
                exchange.seen.on_response(reply, found, self._shared.now_ms)
            verdict = found if isinstance(found, Throttle) else None
        reply.end_hook()
        if exchange.plan.hooks.on_complete is not None:
            before = exchange.result or UNKNOWN
            exchange.result = Result(reply, before.refusals)
        return verdict, reply.changed

    def pass_uninspected(self, exchange: ObservedExchange, size: int, max_bytes: int) -> None:
        """Let a reply stream that is too large to be kept for policies, and report it as a fault of each.

        Raises BrokerProtocolError if one of them guards its connections.
        """
        plan = exchange.plan
        words = f"a {plan.api.name} reply of {size} bytes is too large for hears_body, expected at most {max_bytes}"
        entries = plan.hooks.hears_body
        guards = [entry.name for entry in entries if not entry.forwards_on_error]
        if guards:
            raise BrokerProtocolError(f"{words}; policies that hear it: {', '.join(guards)}")
        for entry in entries:
            self._shared.chain.hook_runner.fault(entry.name, "on_response", VerdictError(words))
        exchange.plan = plan.unheard()

    def blame(
        self,
        exchange: ObservedExchange,
        error: BaseException,
        now_ms: int,
        hook: str = "on_request",
    ) -> PolicyFault:
        """Return the fault of a policy that cannot judge the request, which ends here."""
        self.complete(exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
        return self._shared.chain.attribute_fault(exchange.plan.api.key, hook, error)

    def complete(
        self,
        exchange: Exchange,
        outcome: Outcome,
        now_ms: int,
        *,
        forwarded: bool = True,
        reason: CloseReason | None = None,
    ) -> None:
        """Tell the policies, the trace and the capture how a request has ended, unless they know.

        `forwarded`: whether it was sent to the broker. `reason`: why the session ends, if it ends.
        """
        plan, on_complete = exchange.plan, None
        if isinstance(exchange, ObservedExchange):
            if exchange.asked_up_to == COMPLETED:
                return
            on_complete = plan.hooks.on_complete
            if on_complete is None:
                exchange.asked_up_to = COMPLETED
            if exchange.delay_ms >= 0:
                _count_delay(exchange)
        if outcome is not _REPLIED:
            plan.meter.outcomes[outcome] += 1
            is_abnormal = outcome is Outcome.DISCONNECTED and reason not in ORDINARY
            if is_abnormal and self._shared.keeps_traces:
                exchange = observed(exchange)
                trace_of(self._shared, exchange)
        if not isinstance(exchange, ObservedExchange):
            return
        if on_complete is not None:
            result = exchange.result
            if result is None:
                on_complete(exchange, outcome, plan.peer, UNKNOWN, now_ms)
            else:
                on_complete(exchange, outcome, plan.peer, result, now_ms)
                exchange.result = None
                if isinstance(result.response, Reply):
                    result.response.release()
        if exchange.trace is not None:
            finish_trace(self._shared, exchange, outcome, forwarded=forwarded)
        if self._shared.capture is not None:
            self._shared.capture.end(exchange, outcome, now_ms)

    def complete_replied(self, exchange: Exchange, now_ms: int) -> None:
        """Do as `complete` for a request that the broker has answered. Most throttled ones have no listener."""
        if (
            isinstance(exchange, ObservedExchange)
            and exchange.trace is None
            and exchange.plan.hooks.on_complete is None
            and self._shared.capture is None
        ):
            exchange.asked_up_to = COMPLETED
            if exchange.delay_ms >= 0:
                _count_delay(exchange)
            return
        self.complete(exchange, _REPLIED, now_ms)

    def without_exemption(self, exchange: ObservedExchange, verdict: Verdict) -> Verdict:
        """Return the same verdict; an exemption (no quota counts the request) is noted and removed."""
        ends = verdict.forward if isinstance(verdict, Throttle) else verdict
        if not isinstance(ends, Forward) or not ends.exempt:
            return verdict
        mark_exempt(exchange)
        bare = without_exemption(ends)
        return replace(verdict, forward=bare) if isinstance(verdict, Throttle) else bare


def _count_delay(exchange: ObservedExchange) -> None:
    """Count by how long quotas have delayed the client of a request that has ended."""
    exchange.plan.meter.count_wait(DELAY, exchange.delay_ms * 1000)
    exchange.delay_ms = NOT_DELAYED


def mark_exempt(exchange: Exchange) -> None:
    """Note that a policy has exempted the request: no quota counts it."""
    plan = exchange.plan
    if not plan.is_sign_on:  # else that is known already
        plan.usage.mark_exempt(exchange.size_bytes)
