"""The fast path of requests: those that are usual in every way are forwarded as they came.

Rules:
- A request is settled here or nothing is done about it: any other takes the general path (`request_stream`).
- The first of its kind gets its plan (`PlanBook.try_meet`), and is usual from then on: a client's first Produce passes
  as its later ones do. Plans are expensive, so one read makes one here; the general path, whose work is bounded by
  turns, makes the others.
- One that is not whole in its read begins here (`_stream_usual`), and continues in `request_stream.pass_on`.
- Nothing is made per request but one Exchange, and nothing looked up but one Plan. What the loop calls is C in the
  compiled build. A helper for each request (`try_pass`) would read better, but costs the source half as much again.
- A request is counted just before its policies are asked. What a policy raises is its PolicyFault; the request has
  ended then, and those before it are settled. A verdict that is more than FORWARD or a throttle waits for the general
  path, which applies it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import EXEMPT, FORWARD, Outcome, Throttle
from policies.verdicts import check_request
from proxy.core.session import frame_heads, mutes, paths, request_stream, sampling
from proxy.core.session.exchange import Exchange, ObservedExchange, new_observed
from proxy.core.session.in_flight import CROWDED
from proxy.core.session.kept_produce import keep, keep_named, keep_tagged
from proxy.core.session.naming_exchange import NamingExchange
from proxy.core.session.policy_calls import mark_exempt
from proxy.core.session.read_in_place import (
    MAX_FRAME_BYTES,
    MAX_STEP_BYTES,
    leave_read,
    pass_read,
    show_in_place,
)
from proxy.core.turns import TURN_LABOUR_BYTES
from wire import produce_runs

if TYPE_CHECKING:
    from policies.api import Verdict
    from proxy.core.session.link import Link
    from proxy.core.session.plan import Plan

MAX_KEEP_STEPS: Final = 4096
"""Topics, partitions and tagged fields of Produce requests that are visited in one read. A read cannot hold so many
partitions with a record batch in each."""


def pass_usual(link: Link, buf: bytearray, pos: int, end: int, now_ms: int) -> None:
    """Pass on the usual requests that buf[pos:end] begins with. They end at `link.settled`, even if this raises."""
    plans, entries, usage = link.plans, link.queue.entries, link.usage
    now_us, last = link.shared.now_us, end - frame_heads.REQUEST_BYTES
    counted = usage.requests
    link.keep_steps = MAX_KEEP_STEPS
    try:
        while pos <= last and not link.diverted:
            size, kind, correlation_id = frame_heads.request_at(buf, pos)
            if kind != plans.last_kind:
                plans.last_plan, plans.last_kind = plans.by_kind.get(kind), kind
            plan = plans.last_plan
            stop = pos + 4 + size
            # Bytes at and after `end` are old and look valid, so no field is trusted before `stop` is compared.
            if (
                plan is None
                or stop > end
                or not plan.min_bytes <= size <= plan.fast_bytes
                or not frame_heads.has_prefix(buf, plan.prefix, pos + frame_heads.REQUEST_BYTES)
            ):
                break
            # What is kept is found before a gate or a policy is asked: if it cannot be, the general path asks them.
            kept: bytearray | bytes | None = None
            if plan.keeps_partitions and size < frame_heads.MAX_KEPT_BYTES:
                kept = frame_heads.copy(buf, pos, stop)
            elif plan.keeps_partitions:
                kept = _kept(link, plan, buf, pos, stop)
                if kept is None:
                    break
            if plan.counts_produced:
                steps = plan.topics.read(buf, pos, stop, link.keep_steps)  # type: ignore[union-attr] # it counts them
                if steps < 0:
                    break
                link.keep_steps -= steps
            path = plan.request_path
            if path == paths.PASSES or (
                path == paths.GATED and _opens(link, plan, correlation_id, size, now_ms)
            ):
                # Made here, slot by slot: a constructor would cost more than the rest of the loop.
                exchange = Exchange.__new__(Exchange)
                exchange.plan = plan
                exchange.correlation_id = correlation_id
                exchange.arrived_us = now_us
                exchange.size_bytes = size
                exchange.kept = kept
                entries.append(exchange)
                usage.requests += 1
                usage.request_bytes += 4 + size
                if plan.counts_produced:
                    plan.topics.produced()  # type: ignore[union-attr] # as above
            elif not _try_ask(link, plan, correlation_id, buf, pos, stop, end, kept, now_ms):
                break
            pos = stop
    finally:
        link.settled = pos
    if link.samples:
        link.sample_left -= usage.requests - counted
        if link.sample_left <= 0:
            sampling.sample_newest(link)


def pass_new_or_cut(link: Link, buf: bytearray, pos: int, end: int, now_ms: int) -> None:
    """Take the request at `pos`, where `pass_usual` has stopped, if it is the first of its kind, or the read cuts it.

    What passes of it, and of those after it, ends at `link.settled`. A new kind waits for a turn if sessions do.
    """
    if end - pos < frame_heads.REQUEST_BYTES:
        return
    size, kind, correlation_id = frame_heads.request_at(buf, pos)
    plan: Plan | None = link.plans.by_kind.get(kind)
    if plan is not None:
        _stream_usual(link, plan, size, correlation_id, buf, pos, end, now_ms)
    elif _may_meet(link) and link.plans.try_meet(kind, buf, pos, end, size):
        link.shared.newcomers.on_request(link, link.shared.now_ms)
        pass_usual(link, buf, pos, end, now_ms)


def _may_meet(link: Link) -> bool:
    """Return whether a request of a new kind may take the fast path: without a wait, and without memory to give back.

    Memory was reserved for it if it waited to be kept whole, and no policy needs that any more.
    """
    claim = link.known_claim
    return link.shared.turns.labour_bytes > 0 and (claim is None or claim.is_free)


def _stream_usual(
    link: Link,
    plan: Plan,
    size: int,
    correlation_id: int,
    buf: bytearray,
    pos: int,
    end: int,
    now_ms: int,
) -> None:
    """Begin the request at `pos`, which is usual but not whole in this read. Its bytes end at `link.settled`.

    Any other is left to the general path: also one that may have to wait, because other requests are announced.
    """
    here = end - pos
    if (
        plan.request_path > paths.ASKED
        or here < 4 + plan.min_bytes
        or here >= 4 + size
        or not plan.min_bytes <= size <= plan.fast_bytes
        or not frame_heads.has_prefix(buf, plan.prefix, pos + frame_heads.REQUEST_BYTES)
        or not _may_stream(link, 4 + size, here)
    ):
        return
    passes = plan.request_path == paths.PASSES or (
        plan.gate is not None and _opens(link, plan, correlation_id, size, now_ms)
    )
    number = link.next_exchange_id()
    exchange = new_observed(
        ObservedExchange, plan, correlation_id, size, link.shared.now_us, now_ms, number
    )
    link.usage.requests += 1
    link.usage.request_bytes += 4 + size
    if link.samples:
        sampling.on_arrived(link, exchange)
    throttle: Throttle | None = None
    if not passes:
        verdict = link.ask(exchange, now_ms)
        if isinstance(verdict, Throttle) and verdict.forward is FORWARD:
            throttle = verdict
        elif verdict is not FORWARD:
            link.resume_later(exchange, verdict)
            return
    if 4 + size > link.shared.announced.small_bytes:
        link.shared.announced.begin(link.claim, number, 4 + size, here)
    link.settled = request_stream.stream(link, exchange, throttle, buf, pos, end, now_ms)


def _may_stream(link: Link, whole: int, here_bytes: int) -> bool:
    """Return whether a request of which so much is here may begin to stream now, without memory and without a wait."""
    announced, claim = link.shared.announced, link.known_claim
    if claim is not None and not claim.is_free:
        return False
    return whole <= announced.small_bytes or announced.may_begin(
        link.peer.node_id, whole, here_bytes
    )


def _kept(link: Link, plan: Plan, buf: bytearray, pos: int, stop: int) -> bytearray | bytes | None:
    """Return what is kept of a long Produce for a reply made here; None if it has too many parts for one read.

    b"": that is found when it is read for a policy.
    """
    if plan.shows_names:
        return b""
    kept = keep(plan, buf, pos, stop, link.keep_steps)
    if kept is None:
        kept, link.keep_steps = keep_tagged(plan, buf, pos, stop, link.keep_steps)
        if kept is None:
            return None
    elif isinstance(kept, bytes):  # packed
        link.keep_steps -= len(kept) // produce_runs.INDEX_BYTES
    if len(kept) > frame_heads.MAX_KEPT_BYTES:
        link.uncounted = CROWDED
    return kept


def _opens(link: Link, plan: Plan, correlation_id: int, size: int, now_ms: int) -> bool:
    """Return whether the gate of a policy lets a request pass. Raises PolicyFault."""
    try:
        return plan.gate.passes(size, now_ms)  # type: ignore[union-attr] # the caller has looked
    except BaseException as error:  # `policies.hook_runner` says why
        link.usage.requests += 1
        link.usage.request_bytes += 4 + size
        number = link.next_exchange_id()
        blamed = ObservedExchange(plan, correlation_id, size, link.shared.now_us, number)
        raise link.calls.blame(blamed, error, now_ms, "gate") from error


def _try_ask(
    link: Link,
    plan: Plan,
    correlation_id: int,
    buf: bytearray,
    pos: int,
    stop: int,
    end: int,
    kept: bytearray | bytes | None,
    now_ms: int,
) -> bool:
    """Ask the policies about a request; return whether it has passed. Else the general path takes it.

    Raises PolicyFault.
    """
    kind = NamingExchange if plan.shows_names else ObservedExchange
    size, number = stop - pos - 4, link.exchange_ids + 1
    exchange = new_observed(kind, plan, correlation_id, size, link.shared.now_us, now_ms, number)
    exchange.kept = kept
    path = plan.request_path
    if path == paths.SHOWN and not _shows(link, exchange, buf, pos, stop):
        return False
    link.exchange_ids = number
    link.usage.requests += 1
    link.usage.request_bytes += 4 + size
    on_request = plan.on_request
    if on_request is not None:
        try:
            verdict = on_request(exchange, plan.peer, now_ms)
            passes = verdict is FORWARD or _lets_pass(link, exchange, verdict, end - stop, now_ms)
        except BaseException as error:  # as above
            raise link.calls.blame(exchange, error, now_ms) from error
        if not passes:
            if path == paths.SHOWN:
                leave_read(exchange)
            return False
    if path == paths.SHOWN:
        pass_read(exchange, buf, pos)
    if plan.counts_produced:
        plan.topics.produced()  # type: ignore[union-attr] # the caller has read them
    if plan.silent:
        link.complete(exchange, Outcome.NO_REPLY, now_ms)
    else:
        link.queue.entries.append(exchange)
    return True


def _lets_pass(
    link: Link, exchange: ObservedExchange, verdict: Verdict, left_bytes: int, now_ms: int
) -> bool:
    """Return whether a request passes as it is, now or with a throttle; else the verdict waits for the general path.

    `left_bytes` of the read come after it.
    """
    if verdict is EXEMPT:
        mark_exempt(exchange)
        return True
    check_request(verdict)
    if not isinstance(verdict, Throttle) or verdict.forward is not FORWARD:
        verdict = link.calls.without_exemption(exchange, verdict)
    if isinstance(verdict, Throttle) and verdict.forward is FORWARD:
        time_ms, why = verdict.throttle_time_ms, verdict.why
        if left_bytes or not mutes.try_defer(link, exchange, time_ms, now_ms, why):
            mutes.throttle_request(link, exchange, time_ms, now_ms, why)
        return True
    if verdict is FORWARD:
        return True
    link.resume_later(exchange, verdict)
    return False


def _shows(link: Link, exchange: ObservedExchange, buf: bytearray, pos: int, stop: int) -> bool:
    """Show the policies a request where it lies in the read; False: this read may do no more of that, or cannot."""
    if not _may_read(link, stop - pos - 4) or not show_in_place(
        link.shared, exchange, buf, pos, stop
    ):
        return False
    if exchange.plan.shows_names and exchange.kept == b"":
        exchange.kept = keep_named(exchange)
        if exchange.kept is None:
            return False
        if len(exchange.kept) > frame_heads.MAX_KEPT_BYTES:
            link.uncounted = CROWDED
    return True


def _may_read(link: Link, size: int) -> bool:
    """Return whether a request of this size may be judged in the read now; if so, count its bytes."""
    shared, claim = link.shared, link.known_claim
    turns = shared.turns
    if (
        size > MAX_FRAME_BYTES
        # sessions wait for turns, or memory: the general path lets this one wait, too
        or turns.labour_bytes != TURN_LABOUR_BYTES
        or shared.reservations.is_contended
        or (claim is not None and claim.is_for_next)
    ):
        return False
    if turns.in_place_us != shared.now_us:  # a new step
        turns.in_place_us, turns.in_place_bytes = shared.now_us, MAX_STEP_BYTES
    left = turns.in_place_bytes - size - 4
    if left < 0:
        return False
    turns.in_place_bytes = left
    return True
