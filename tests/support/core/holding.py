"""Sessions with a held request, and the policy that holds it."""

import pytest

from policies.api import FORWARD, Hold, Need, Reject
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.errors import ErrorCode

HOLD = Hold(1000, "key")
REFUSE = Reject(ErrorCode.POLICY_VIOLATION)
REFUSED = b"\x00\x2c"  # Heartbeat v0 with POLICY_VIOLATION (44)
NEEDS = pytest.mark.parametrize("needs", list(Need), ids=lambda need: need.name)


class Holding(Recorder):
    """Says about each request, one after the other, what it was given; FORWARD when there is no more."""

    def __init__(self, *verdicts, **options):
        self.verdicts = list(verdicts)
        super().__init__(self._next, **options)

    def _next(self, _):
        verdict = self.verdicts.pop(0) if self.verdicts else FORWARD
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def held(*later, verdict=HOLD, needs=Need.HEADER, asked=None) -> tuple[Wire, Holding]:
    """A session whose first request was held; `later` is what the policy says from then on."""
    policy = Holding(verdict, *later, needs=needs)
    wire = Wire(make_engine([policy])).client(asked or f.heartbeat(1))
    assert wire.session.held is not None
    return wire, policy


def assert_nothing_left(wire: Wire) -> None:
    wire.release()
    assert wire.held_bytes == 0
    assert wire.engine.timers.next_ms() is None
    assert wire.engine.wake("key") == 0
