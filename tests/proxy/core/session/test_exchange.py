"""The facts about a request that a policy has in every hook."""

from policies.api import (
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Peer,
    Policy,
    Request,
    Result,
    Verdict,
)
from policies.testing import BenchHost
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.apis import ApiKey


def seen(data: bytes, *, needs: Need = Need.HEADER, node_id: int | None = None) -> dict:
    """Return the fields that a policy reads from the only request in `data` while it is asked."""
    read = {}

    def look(request):
        for name in ("api", "api_key", "api_version", "node_id", "size_bytes", "acks"):
            read[name] = getattr(request, name)
        for name in ("exchange_id", "head", "body"):
            read[name] = getattr(request, name)
        return FORWARD

    Wire(make_engine([Recorder(look, needs=needs)]), node_id).client(data)
    return read


def test_a_request_has_its_api_version_and_node():
    """The table's facts, the client's version, the broker of the port it came in at; its size as Kafka counts it."""
    request = seen(f.heartbeat(7), node_id=2)
    assert request["api"].name == "Heartbeat"
    assert (request["api_key"], request["api_version"]) == (ApiKey.HEARTBEAT, 0)
    assert request["node_id"] == 2
    assert seen(f.heartbeat(7))["node_id"] is None
    assert request["size_bytes"] == len(f.heartbeat(7)) - 4
    assert request["acks"] is None
    assert [seen(f.produce(1, acks=acks))["acks"] for acks in (-1, 0, 1)] == [-1, 0, 1]


def test_head_and_body_are_there_only_for_policies_that_need_them():
    """Otherwise they are None."""
    request = seen(f.heartbeat(7))
    assert (request["head"], request["body"]) == (None, None)
    assert seen(f.produce(1), needs=Need.HEAD)["head"] is not None
    assert seen(f.heartbeat(7), needs=Need.BODY)["body"] == f.heartbeat(7)[19:]


class Facts(Policy):
    """Notes number, client and beginning of each request; holds the first one once."""

    Config = dict

    def __init__(self) -> None:
        super().__init__({}, BenchHost())
        self.notes: list[tuple[str, int, int, int, int]] = []

    def note(self, hook: str, request: Request, now_ms: int) -> None:
        """Note the facts."""
        delay_ms = now_ms - request.began_ms
        session_id = request.peer.session_id
        self.notes.append((hook, request.id, session_id, request.exchange_id, delay_ms))

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

    numbers = {note[1] for note in policy.notes}
    assert len(numbers) == 2
    of_first = [note for note in policy.notes if note[1] == policy.notes[0][1]]
    assert [(hook, *rest) for hook, _, *rest in of_first] == [
        ("request", 1, 1, 0),
        ("request", 1, 1, 60),
        ("response", 1, 1, 100),
        ("complete", 1, 1, 100),
    ]
    first.client(f.heartbeat(8))
    assert policy.notes[-1][2:4] == (1, 2)  # exchange ids count within a session
