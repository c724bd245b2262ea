"""Sessions whose client is throttled."""

from policies.api import FORWARD, Forward, Need, Policy, Respond, Throttle, Verdict
from tests.support.core.policies import Recorder
from tests.support.core.session_state import is_diverted, is_throttled
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages.throttled import Kind


class Quiet(Recorder):
    """Throttles by `ms` the request after `skip` others; is told of no reply, but of every end."""

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
    """The same without `on_complete`: only its throttle makes a reply need the general path."""

    on_response = Policy.on_response
    on_complete = Policy.on_complete


def throttled(
    kind: Kind, needs: Need = Need.HEADER, ms: int = 500, policy: type[Quiet] = OnlyAsked
) -> Wire:
    """Return a session whose first request was just throttled; its second request is kept, unread.

    A request of their kind was answered before, so with Need.HEADER the fast loop handles both.
    """
    wire = Wire(make_engine([policy(ms, needs=needs, skip=1)]))
    wire.client(kind.ask(0)).broker(kind.reply(0, 0))
    wire.to_broker = wire.to_client = b""
    return wire.client(kind.ask(1) + kind.ask(2))


def assert_usual_again(wire: Wire) -> None:
    """Check that nothing is muted, and that the fast loops handle the next frames."""
    session = wire.session
    assert not session.client.muted
    assert not is_diverted(session)
    assert session.queue.diverted == 0
    assert not is_throttled(session)
    assert wire.held_bytes == 0
