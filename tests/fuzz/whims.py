"""Policies with random verdicts on requests and replies, and one that raises and calls back in any hook."""

import random
from typing import Final

from policies import api
from policies.api import (
    EXEMPT,
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Patch,
    Peer,
    Policy,
    Reject,
    Replace,
    Request,
    Respond,
    Response,
    Result,
    Throttle,
    Verdict,
)
from policies.denial import Deny
from policies.testing import BenchHost
from tests.fuzz.grammar import Host
from tests.fuzz.peers import OURS
from tests.fuzz.stock import Stock
from wire import codec
from wire.apis import OFFERED, ApiKey
from wire.authorization import is_authorized
from wire.errors import ErrorCode

STOCK: Final = Stock()
OUR_HOST: Final = Host(OURS.encode(), 19093)
HEARD: Final = frozenset(OFFERED) - {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
}
"""The APIs that `hears_body` may have."""
FAULTS: Final = (
    ZeroDivisionError("a whim"),
    StopIteration("a whim"),
    GeneratorExit("a whim"),
    KeyboardInterrupt("a whim"),
    SystemExit("a whim"),
)
"""What a hook may raise: a policy's bug, be it an Exception or not."""


class Whim(Policy):
    """Returns any verdict, chosen by the seed, and checks that each request's end is reported once."""

    Config = dict

    def __init__(self, needs: Need, seed: int) -> None:
        super().__init__({}, BenchHost())
        self.needs = needs
        self.open: dict[int, Request] = {}
        self._whim = random.Random(seed)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        self.open[id(request)] = request
        whim = self._whim
        turn = whim.randrange(16)
        if turn == 0:
            return Throttle(whim.choice((0, 1, 50, 2000)))
        if turn == 1:
            return Hold(whim.choice((1, 40, 900)), whim.choice("ab"))
        if turn == 2:
            return Hold(20, "a", Reject(ErrorCode.POLICY_VIOLATION))
        if turn == 3:
            return Reject(ErrorCode.POLICY_VIOLATION, close=whim.random() < 0.2)
        if turn == 4 and codec.is_known(request.api):
            frame = STOCK.reply(request.api, 0, whim, host=OUR_HOST)
            return Respond(frame[8 + request.api.response_header_version :])
        if turn == 5:
            return Throttle(30, Reject(ErrorCode.POLICY_VIOLATION))
        if turn == 6:
            return EXEMPT
        if turn == 7 and request.body is not None:
            return Forward(body=bytes(request.body))
        if turn == 8 and request.body:
            return Forward(patches=(Patch(0, bytes(request.body[:1])),))
        if turn in {9, 10} and request.names is not None:  # type: ignore[attr-defined] # of Sluice's own requests
            codes = (ErrorCode.POLICY_VIOLATION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if turn == 9:
                keys = [topic.key for topic in request.topics]
                return Deny({key: whim.choice(codes) for key in keys if whim.random() < 0.6})
            asks = request.asks if is_authorized(request.api) else ()
            return Deny({ask: ask.code for ask in asks if whim.random() < 0.4})
        return FORWARD

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        return Throttle(20) if self._whim.random() < 0.05 else FORWARD

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        assert self.open.pop(id(request), None) is request, "a request completed that was not open"


class WildWhim(Whim):
    """As Whim; each hook may also raise, wake held requests, and have what the policy needs read again.

    `strange` are the requests that ended and were not open.
    """

    def __init__(self, needs: Need, seed: int, host: api.Host) -> None:
        super().__init__(needs, seed)
        self.host = host
        self.strange: list[Request] = []

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        self.open[id(request)] = request
        self._act()
        verdict = super().on_request(request, peer, now_ms)
        self._act()
        return verdict

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        self._act()
        return super().on_response(request, response, peer, now_ms)

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        if self.open.pop(id(request), None) is not request:
            self.strange.append(request)
        self._act()

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        self._act()

    def _act(self) -> None:
        turn = self._whim.random()
        if turn < 0.1:
            self.host.wake(self._whim.choice("ab"))
        elif turn < 0.13:
            self.needs = self._whim.choice(list(Need))
            self.host.reconsider()
        elif turn < 0.14:
            raise self._whim.choice(FAULTS)


class HearingWhim(Whim):
    """As Whim; it hears the body of every reply that a policy may hear, reads its errors, and replaces it at times."""

    hears_body = HEARD

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle | Replace:
        whim, body, errors = self._whim, response.body, response.errors
        assert (body is None) == (errors is None)
        if body is None or errors is None:
            return FORWARD
        assert len(body) == response.size_bytes - 4 - request.api.response_header_version
        assert not (errors and errors.unread)
        if whim.random() < 0.2 and codec.is_known(request.api):
            frame = STOCK.reply(request.api, 0, whim, host=OUR_HOST)
            new = Replace(frame[8 + request.api.response_header_version :])
            return Throttle(20, new) if whim.random() < 0.1 else new
        return FORWARD

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        super().on_complete(request, outcome, peer, result, now_ms)
        if result.errors is not None:
            assert 0 not in result.errors.values()
            assert not (result.errors and result.errors.unread)
