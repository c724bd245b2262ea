"""A session whose client is throttled, by the shortest way there is to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import FORWARD, Need, Policy, Throttle
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine

if TYPE_CHECKING:
    from policies.api import Forward, Respond, Verdict
    from tests.support.throttled import Kind


class Quiet(Recorder):
    """Throttles by `ms` the request that comes after `skip` others; hears of no reply, but of every end."""

    def __init__(
        self,
        ms: int = 500,
        *,
        forward: Forward | Respond = FORWARD,
        needs: Need = Need.HEADER,
        skip: int = 0,
    ) -> None:
        verdicts: list[Verdict] = [*[FORWARD] * skip, Throttle(ms, forward)]
        super().__init__(
            lambda _: verdicts.pop(0) if verdicts else FORWARD, needs=needs, response_apis=()
        )


class OnlyAsked(Quiet):
    """The same, and it hears of no end either: nothing but its throttle makes a reply worth a look."""

    on_response = Policy.on_response
    on_complete = Policy.on_complete


def throttled(
    kind: Kind, needs: Need = Need.HEADER, ms: int = 500, policy: type[Quiet] = OnlyAsked
) -> Wire:
    """Its first request has just been throttled; its second stands behind it, unread.

    One of their kind was answered before, so that with Need.HEADER the fast loop takes them.
    """
    wire = Wire(make_engine([policy(ms, needs=needs, skip=1)]))
    wire.client(kind.ask(0)).broker(kind.reply(0, 0))
    wire.to_broker = wire.to_client = b""
    return wire.client(kind.ask(1) + kind.ask(2))


def assert_usual_again(wire: Wire) -> None:
    """Nothing is muted, and the fast loops settle what comes."""
    session = wire.session
    assert not session.client.muted
    assert not session.unusual_requests
    assert session.unusual_replies == 0
    assert session.throttle_timer is None
    assert wire.held_bytes == 0
