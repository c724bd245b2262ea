"""Small policies for tests: each does one thing, and remembers its calls."""

from collections.abc import Callable, Iterable

from policies.api import (
    FORWARD,
    Forward,
    Gate,
    Need,
    Outcome,
    Peer,
    Policy,
    Request,
    Response,
    Result,
    Throttle,
    Verdict,
)
from policies.testing import BenchHost


class Recorder(Policy):
    """Decides by functions and remembers: `asked`, `heard`, `completed` hold (exchange_id, ...).

    `said` is the throttle time in each reply before Sluice changed it.
    """

    Config = dict

    def __init__(
        self,
        decide: Callable[[Request], Verdict] = lambda _: FORWARD,
        *,
        needs: Need = Need.HEADER,
        apis: Iterable[int] | None = None,
        response_apis: Iterable[int] | None = None,
        hear: Callable[[Request], Forward | Throttle] = lambda _: FORWARD,
    ) -> None:
        super().__init__({}, BenchHost())
        self.needs = needs
        self.apis = None if apis is None else frozenset(apis)
        self.response_apis = None if response_apis is None else frozenset(response_apis)
        self.judge = decide
        self.judge_reply = hear
        self.asked: list[int] = []
        self.bodies: list[bytes | None] = []
        self.heads: list[object] = []
        self.heard: list[tuple[int, int]] = []
        self.said: list[int] = []
        self.completed: list[tuple[int, Outcome]] = []
        self.gone: list[int] = []
        self.peers: list[Peer] = []

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        self.asked.append(request.exchange_id)
        self.bodies.append(request.body)
        self.heads.append(request.head)
        self.peers.append(peer)
        return self.judge(request)

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        self.heard.append((request.exchange_id, response.size_bytes))
        self.said.append(response.throttle_time_ms)
        return self.judge_reply(request)

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        self.completed.append((request.exchange_id, outcome))

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        self.gone.append(peer.session_id)


class Silent(Recorder):
    """As Recorder, but wants no on_response: replies stay plain but for `on_complete`."""

    on_response = Policy.on_response


class EverySecond(Policy):
    """Has a gate that lets every second request pass; of the others it is asked."""

    Config = dict

    def __init__(self) -> None:
        super().__init__({}, BenchHost())
        self.asked = 0

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        self.asked += 1
        return FORWARD

    def gate(self, api_key: int, acks: int | None, peer: Peer) -> Gate:
        passes = [False]

        def opens(size_bytes: int, now_ms: int) -> bool:
            passes[0] = not passes[0]
            return passes[0]

        return opens
