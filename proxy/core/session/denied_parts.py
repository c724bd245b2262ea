"""A request of which policies deny a part: the rest is forwarded, and the reply is joined.

Rules:
- Denied items never reach the broker. The others keep their bytes and their order (`policies.division`).
- If no item is left the reply is made here.
- The items that are added to the reply are counted in the pool of requests until the request ends.
- With acks=0 there is no reply: the session ends after the rest was sent, as a broker ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Reject
from policies.chain import COMPLETED
from policies.decision import refusal_message
from policies.division import divided
from policies.verdicts import VerdictError
from proxy.core.errors import CloseReason
from proxy.core.session.buffered_request import with_body
from proxy.core.session.local_replies import answer, refuse
from proxy.core.session.traces import on_refused, refuser
from wire.apis import ApiKey
from wire.reply_joins import Additions, add_items

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.api import Outcome, Peer
    from policies.chain import ChainRequest
    from policies.denial import Deny
    from policies.division import Label
    from policies.responses import Result
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from wire.primitives import Buffer


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
    names, plan = exchange.names, exchange.plan
    api = plan.api
    if names is None:
        error = VerdictError(
            f"a Deny of a {api.name} needs Need.TOPICS, and an API that names resources"
        )
        raise link.calls.blame(exchange, error, now_ms) from error

    def words_of(label: Label) -> str:
        denial = denials[label[0]]
        name = denial.policy or refuser(exchange)
        return refusal_message(name, Reject(label[1], message=denial.message))

    brokers = link.shared.topology.advertised() if api.key == ApiKey.METADATA else ()
    division = yield from divided(api, frame, at, names, denials, words_of, brokers)
    refused, rest, added, reply = division
    if not refused:
        return frame
    if rest is None and (reply is None or plan.silent):
        place, code = refused[0]
        verdict = Reject(code, message=denials[place].message)
        body = bytes(memoryview(frame)[at:])
        yield from refuse(link, exchange, verdict, body, now_ms, denials[place].policy)
        return None
    for place, code in refused:
        denial = denials[place]
        on_refused(link.shared, exchange, Reject(code, message=denial.message), denial.policy)
    if rest is None:
        answer(link, exchange, reply or b"", link.shared.now_ms)
        return None
    if plan.silent:
        link.end_after_replies(CloseReason.POLICY, f"a part of a {api.name} refused")
    else:
        _join(link, exchange, added)
    return with_body(frame, at, rest)


def maybe_end_after(link: Link, exchange: ObservedExchange, denials: tuple[Deny, ...]) -> None:
    """End the session after its replies if the client will send a denied part again: see `Reject.close`."""
    name = exchange.plan.api.name
    codes = {code for denial in denials for code in denial.used_codes}
    if any(Reject(code).closes(name) for code in codes):
        link.end_after_replies(CloseReason.POLICY, f"a part of a {name} refused")


def _join(link: Link, exchange: ObservedExchange, added: Additions) -> None:
    """Have the items added to the reply, and count them until the request ends."""
    plan, pool = exchange.plan, link.shared.request_pool
    api, rewrite, on_complete = plan.api, plan.rewrite, plan.hooks.on_complete

    def join(buf: Buffer, start: int, end: int) -> bytes:
        return add_items(api, buf, start, end, added)

    def join_rewritten(buf: bytearray, start: int, end: int) -> bytes:
        changed = None if rewrite is None else rewrite(buf, start, end)
        return join(buf, start, end) if changed is None else join(changed, 0, len(changed))

    def complete(
        request: ChainRequest, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        pool.release(added.size_bytes)
        if on_complete is None:
            request.asked_up_to = COMPLETED
        else:
            on_complete(request, outcome, peer, result, now_ms)

    pool.force_allocate(added.size_bytes)
    hooks = plan.hooks._replace(on_complete=complete)
    leads = join if api.key == ApiKey.FETCH else None  # only its topics may be long
    exchange.plan = plan.joining(join_rewritten, leads, join, hooks)
