"""A request of which policies deny a part: the rest is forwarded, and the reply is joined.

Rules:
- Denied topics, partitions and groups never reach the broker. The others keep their bytes and their order.
- The first policy that denies a partition names its code. If no item is left the reply is made here.
- The items that are added to the reply are counted in the pool of requests until the request ends.
- With acks=0 there is no reply: the session ends after the rest was sent, as a broker ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Reject
from policies.chain import COMPLETED
from policies.decision import refusal_message
from policies.verdicts import VerdictError
from proxy.core.errors import CloseReason
from proxy.core.session.buffered_request import with_body
from proxy.core.session.local_replies import answer, refuse
from proxy.core.session.traces import on_refused, refuser
from wire import large_refusals
from wire.apis import ApiKey
from wire.errors import WireError
from wire.reply_joins import insert_items
from wire.request_parts import dividing, dividing_by_group

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Outcome, Peer
    from policies.chain import ChainRequest
    from policies.denial import Deny
    from policies.responses import Result
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from wire.primitives import Buffer
    from wire.topic_refs import TopicRef

LABELLED_TOPICS = 1_000
"""Topics that are compared with the denials between two pauses."""
Label = tuple[int, int] | None
"""The place of a denial among the verdict's, and its code; None: not denied."""


def without_denied(
    link: Link,
    exchange: ObservedExchange,
    frame: bytearray,
    at: int,
    denials: tuple[Deny, ...],
    now_ms: int,
) -> Generator[None, None, bytearray | None]:
    """Return the frame without the parts that are denied, and have its reply joined; None: it is answered here.

    It pauses in a large request. Raises PolicyFault if the policies did not need the topics of the request.
    """
    names, api = exchange.names, exchange.plan.api
    if names is None:
        error = VerdictError(
            f"a Deny of a {api.name} needs Need.TOPICS, and an API that names topics"
        )
        raise link.calls.blame(exchange, error, now_ms) from error

    def label_of(topic: TopicRef, partition: int | None) -> Label:
        for place, denial in enumerate(denials):
            code = denial.code_of(topic, partition)
            if code is not None:
                return place, code
        return None

    def label_of_group(group: str | None) -> Label:
        for place, denial in enumerate(denials):
            code = denial.groups.get(group) if group is not None else None
            if code is not None:
                return place, code
        return None

    groups: set[Label] = set()
    for number, group in enumerate(names.groups, 1):
        groups.add(label_of_group(group))
        if not number % LABELLED_TOPICS:
            yield
    by_group = bool(groups - {None})
    labels: set[Label] = set()
    for number, topic in enumerate(names.topics, 1):
        labels.update(label_of(topic, each) for each in topic.partitions or (None,))
        if not number % LABELLED_TOPICS:
            yield
    of_topics = sorted(label for label in labels if label is not None)
    if by_group:
        labels = groups
    denied = sorted(label for label in labels if label is not None)
    if not denied:
        return frame
    if by_group and of_topics:  # which of them are those of a denied group is not known
        yield from _refuse_all(link, exchange, frame, at, denials, denied[0], now_ms)
        return None
    everything = labels == set(denied)
    if everything and exchange.plan.silent:
        yield from _refuse_all(link, exchange, frame, at, denials, denied[0], now_ms)
        return None
    try:
        name_of = {t.topic_id: t.name for t in names.topics if t.topic_id and t.name}
        # by the names that the policies saw
        parts = yield from (
            dividing_by_group(api, frame, at, label_of_group)
            if by_group
            else dividing(api, frame, at, name_of, label_of)
        )
        rest = parts.get(None)
        base = b""
        if rest is None:  # a reply to one part, to which the other parts are added
            (_, code), *denied_more = denied
            words = _words(exchange, denials, denied[0])
            brokers = link.shared.topology.advertised() if api.key == ApiKey.METADATA else ()
            base = yield from large_refusals.refusing(api, parts[denied[0]], code, words, brokers)
        else:
            denied_more = denied
        items: list[bytes] = []
        for label in denied_more:
            words = _words(exchange, denials, label)
            items += yield from large_refusals.refusing_items(api, parts[label], label[1], words)
        joined = b"".join(items)
    except WireError:  # an API or version that cannot be divided
        yield from _refuse_all(link, exchange, frame, at, denials, denied[0], now_ms)
        return None
    for place, code in denied:
        denial = denials[place]
        on_refused(link.shared, exchange, Reject(code, message=denial.message), denial.policy)
    if rest is None:
        body = insert_items(api, base, 0, len(base), joined, len(items))
        answer(link, exchange, body, now_ms)
        return None
    if exchange.plan.silent:
        link.end_after_replies(CloseReason.POLICY, f"a part of a {api.name} refused")
    else:
        _join(link, exchange, joined, len(items))
    return with_body(frame, at, rest)


def maybe_end_after(link: Link, exchange: ObservedExchange, denials: tuple[Deny, ...]) -> None:
    """End the session after its replies if the client will send a denied part again: see `Reject.close`."""
    name = exchange.plan.api.name
    codes = {code for denial in denials for code in denial.used_codes}
    if any(Reject(code).closes(name) for code in codes):
        link.end_after_replies(CloseReason.POLICY, f"a part of a {name} refused")


def _refuse_all(
    link: Link,
    exchange: ObservedExchange,
    frame: bytearray,
    at: int,
    denials: tuple[Deny, ...],
    label: tuple[int, int],
    now_ms: int,
) -> Generator[None, None, None]:
    place, code = label
    verdict = Reject(code, message=denials[place].message)
    body = bytes(memoryview(frame)[at:])
    yield from refuse(link, exchange, verdict, body, now_ms, denials[place].policy)


def _words(exchange: ObservedExchange, denials: tuple[Deny, ...], label: tuple[int, int]) -> str:
    """Return the error message for the part with this label."""
    place, code = label
    denial = denials[place]
    name = denial.policy or refuser(exchange)
    return refusal_message(name, Reject(code, message=denial.message))


def _join(link: Link, exchange: ObservedExchange, items: bytes, count: int) -> None:
    """Have the items added to the reply, and count them until the request ends."""
    plan, pool = exchange.plan, link.shared.request_pool
    api, rewrite, on_complete = plan.api, plan.rewrite, plan.hooks.on_complete

    def join(buf: Buffer, start: int, end: int) -> bytes:
        return insert_items(api, buf, start, end, items, count)

    def join_rewritten(buf: bytearray, start: int, end: int) -> bytes:
        changed = None if rewrite is None else rewrite(buf, start, end)
        return join(buf, start, end) if changed is None else join(changed, 0, len(changed))

    def complete(
        request: ChainRequest, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        pool.release(len(items))
        if on_complete is None:
            request.asked_up_to = COMPLETED
        else:
            on_complete(request, outcome, peer, result, now_ms)

    pool.force_allocate(len(items))
    hooks = plan.hooks._replace(on_complete=complete)
    leads = join if api.key == ApiKey.FETCH else None  # only its topics may be long
    exchange.plan = plan.joining(join_rewritten, leads, join, hooks)
