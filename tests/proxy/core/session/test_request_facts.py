"""The facts about a request that a policy has in every hook: its number, its client, and when it began."""

from policies.api import FORWARD, Forward, Hold, Outcome, Peer, Policy, Request, Result, Verdict
from policies.testing import BenchHost
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f


class Facts(Policy):
    """Notes number, client and beginning of each request; holds the first one once."""

    Config = dict

    def __init__(self) -> None:
        super().__init__({}, BenchHost())
        self.notes: list[tuple[str, int, int, int]] = []

    def note(self, hook: str, request: Request, now_ms: int) -> None:
        """Note the facts."""
        delay_ms = now_ms - request.began_ms
        self.notes.append((hook, request.id, request.peer.session_id, delay_ms))

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        self.note("request", request, now_ms)
        return Hold(100, "key") if len(self.notes) == 1 else FORWARD

    def on_response(self, request: Request, response: object, peer: Peer, now_ms: int) -> Forward:
        self.note("response", request, now_ms)
        return FORWARD

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        self.note("complete", request, now_ms)


def test_a_request_keeps_its_number_and_two_clients_never_share_one() -> None:
    """The delay in `on_complete` counts from the first byte, a hold included."""
    policy = Facts()
    engine = make_engine([policy], now_ms=1_000)
    first, second = Wire(engine), Wire(engine)
    first.client(f.heartbeat(7))
    second.client(f.heartbeat(7))
    first.advance(60)
    first.wake("key")
    first.advance(40)
    first.broker(f.heartbeat_reply(7))
    second.broker(f.heartbeat_reply(7))

    numbers = {number for _, number, _, _ in policy.notes}
    assert len(numbers) == 2
    of_first = [note for note in policy.notes if note[1] == policy.notes[0][1]]
    assert [(hook, session, delay) for hook, _, session, delay in of_first] == [
        ("request", 1, 0),
        ("request", 1, 60),
        ("response", 1, 100),
        ("complete", 1, 100),
    ]
