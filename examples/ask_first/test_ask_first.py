"""ask_first: a request waits for the answer of another service."""

from collections.abc import Callable
from urllib.error import URLError

import ask_first
import pytest
from ask_first import REFUSED, AskFirst

from sluice import FORWARD, Hold, Verdict
from sluice.testing import PolicyBench

Answering = Callable[[bool | Exception], PolicyBench]
URL = "http://rights.internal/topics?user="


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Return a function that makes a bench with a service that gives this answer after 300 ms."""

    def make(answer: bool | Exception) -> PolicyBench:  # noqa: FBT001 - the answer
        def ask(*_: str) -> bool:
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(ask_first, "ask", ask)
        bench = PolicyBench(AskFirst, {"url": URL})
        bench.threads.takes_ms = 300
        return bench

    return make


@pytest.mark.parametrize(("answer", "verdict"), [(True, FORWARD), (False, REFUSED)])
def test_a_request_waits_for_the_answer(
    answering: Answering,
    answer: bool,  # noqa: FBT001 - the answer
    verdict: Verdict,
) -> None:
    """It is held until the service has answered; a second request of the user does not ask again."""
    bench = answering(answer)
    assert isinstance(bench.ask(bench.request("DeleteTopics")), Hold)
    bench.advance(299)
    assert not bench.released
    bench.advance(1)
    assert [(each.now_ms, each.verdict) for each in bench.released] == [(300, verdict)]

    assert bench.ask(bench.request("DeleteTopics")) == verdict
    assert bench.threads.calls == 1


def test_a_service_that_fails_refuses_for_a_second(answering: Answering) -> None:
    """The error is logged and counted, and then the service is asked again."""
    bench = answering(URLError("connection refused"))
    bench.ask(bench.request("DeleteTopics"))
    bench.advance(300)
    assert bench.released[-1].verdict == REFUSED
    assert [(level, message) for level, message, _ in bench.reporter.messages] == [
        ("warning", "no answer")
    ]
    bench.advance(1_000)
    assert isinstance(bench.ask(bench.request("DeleteTopics")), Hold)
    assert bench.threads.calls == 2


def test_a_service_that_hangs_refuses_at_the_deadline(answering: Answering) -> None:
    """After four seconds there is a TimeoutError in place of an answer."""
    bench = answering(True)
    bench.threads.takes_ms = 60_000
    bench.ask(bench.request("CreateTopics"))
    bench.advance(4_000)
    assert [(each.now_ms, each.verdict) for each in bench.released] == [(4_000, REFUSED)]
