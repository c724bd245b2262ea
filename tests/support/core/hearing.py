"""A policy that hears the bodies of replies, and frames of DescribeConfigs and Heartbeat for it."""

from collections.abc import Callable, Iterable

from policies.api import (
    FORWARD,
    Forward,
    Outcome,
    Peer,
    Request,
    Response,
    Result,
    Throttle,
    Verdict,
)
from policies.responses import PolicyRefusal, Replace
from tests.support.core.policies import Recorder


class Hearer(Recorder):
    """Remembers bodies, errors and results; `say` judges the reply."""

    def __init__(
        self,
        keys: Iterable[int],
        say: Callable[[Response], Forward | Throttle | Replace] = lambda _: FORWARD,
        decide: Callable[[Request], Verdict] = lambda _: FORWARD,
        **options: object,
    ) -> None:
        super().__init__(decide, **options)
        self.hears_body = frozenset(keys)
        self.say = say
        self.replies: list[bytes | None] = []
        self.errors: list[dict[object, int] | None] = []
        self.results: list[dict[object, int] | None] = []
        self.refusals: list[tuple[PolicyRefusal, ...]] = []

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle | Replace:
        super().on_response(request, response, peer, now_ms)
        self.replies.append(response.body)
        self.errors.append(None if response.errors is None else dict(response.errors))
        if self.hears_body and request.api_key not in self.hears_body:
            return FORWARD
        return self.say(response)

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        super().on_complete(request, outcome, peer, result, now_ms)
        self.results.append(None if result.errors is None else dict(result.errors))
        self.refusals.append(result.refusals)
