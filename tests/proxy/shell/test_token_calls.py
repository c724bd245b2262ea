"""A plug-in that gets tokens may raise, lie, or never return: its error names it, and no secret."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from proxy.shell import tokens
from proxy.shell.token_calls import MAX_CALLS, SETTING, TokenCalls
from proxy.shell.tokens import MAX_TOKEN_CHARS, MAX_TOLD_S, MAX_USED_S, FetchedTokens, TokenError

CANARY = "canary-of-the-plug-in"


def raising(error: BaseException) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


class Text(str):
    """A text that claims to be another."""

    __slots__ = ()


def test_a_token_counts_for_a_day_at_most() -> None:
    """As from any other source."""
    found = TokenCalls("p", lambda: ("a.b.c", 900)).fetch()
    assert (found.token.reveal(), found.lifetime_s) == ("a.b.c", 900.0)
    assert TokenCalls("p", lambda: ("a.b.c", MAX_TOLD_S)).fetch().lifetime_s == MAX_USED_S


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "NoneType"),
        (CANARY, "str"),
        ((CANARY,), "tuple"),
        ((CANARY, 900, 1), "tuple"),
        ((None, 900), "no token"),
        ((CANARY.encode(), 900), "no token"),
        ((Text(CANARY), 900), "no token"),
        (("", 900), "no token"),
        ((f"{CANARY} {CANARY}", 900), "no token"),
        ((f"{CANARY}\x01auth=Bearer", 900), "no token"),
        (("x" * (MAX_TOKEN_CHARS + 1), 900), "no token"),
        *(
            ((CANARY, lifetime), "lifetime")
            for lifetime in (
                *(0, -1, float("nan"), float("inf"), MAX_TOLD_S + 1, 10**400, True, None, "900"),
            )
        ),
    ],
    ids=repr,
)
def test_a_result_that_cannot_be_is_refused(given: Any, words: str) -> None:
    """Without a word of it."""
    with pytest.raises(TokenError, match=f"token_provider: p.*{words}") as caught:
        TokenCalls("p", lambda: given).fetch()
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "error", [ValueError(CANARY), SystemExit(CANARY), KeyboardInterrupt(), GeneratorExit(CANARY)]
)
async def test_an_error_is_told_by_its_type(error: BaseException) -> None:
    """It ends the call, and neither the thread's task nor the process."""
    shared = FetchedTokens(SETTING, TokenCalls("p", raising(error)).fetch)
    with pytest.raises(TokenError, match=f"raised {type(error).__name__}$") as caught:
        await shared.token()
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_calls_that_never_return_keep_a_bounded_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one works when one of them has ended."""
    monkeypatch.setattr(tokens, "TOTAL_TIMEOUT_S", 0.01)
    monkeypatch.setattr(tokens, "FIRST_BACKOFF_S", 0.0)
    go, begun = threading.Event(), []

    def stuck() -> object:
        begun.append(1)
        go.wait()
        return "a.b.c", 900

    calls = TokenCalls("p", stuck)
    shared = FetchedTokens(SETTING, calls.fetch)
    try:
        while len(begun) < MAX_CALLS:  # a call that was given up may not have begun yet
            with pytest.raises(TokenError, match=r"no answer within|have not returned"):
                await shared.token()
        monkeypatch.setattr(tokens, "TOTAL_TIMEOUT_S", 600.0)
        for _ in range(3):
            with pytest.raises(TokenError, match="earlier calls have not returned"):
                await shared.token()
        assert len(begun) == MAX_CALLS
    finally:
        go.set()
    found = None
    while found is None:  # until a thread has left
        try:
            found = await shared.token()
        except TokenError as error:
            assert "have not returned" in str(error)  # noqa: PT017 - the only failure that may be left
    assert found.reveal() == "a.b.c"
