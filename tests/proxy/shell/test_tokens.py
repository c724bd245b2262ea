"""Tokens from a file, and those that are fetched: when, how often, and what a failure costs."""

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from proxy.config.small_files import read_secret
from proxy.core.auth.secret_text import Secret
from proxy.shell import tokens
from proxy.shell.tokens import FetchedToken, FetchedTokens, TokenError, TokenFile, expiry_hint


def jwt(claims: object) -> str:
    """Return an unsigned token."""
    middle = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{middle}.c2ln"


async def test_a_file_is_read_again_for_each_token(tmp_path: Path) -> None:
    """A renewed token is used at once."""
    file = tmp_path / "token"
    found = TokenFile(str(file), lambda: read_secret(str(file)))
    for text in ("first.token", "second.token"):
        file.write_text(text + "\n")
        assert (await found.token()).reveal() == text


@pytest.mark.parametrize("content", [None, "", "two words", "a\nb", "tökən", "x" * 70_000])
async def test_a_file_without_a_token_is_named(tmp_path: Path, content: str | None) -> None:
    """The error has the path, and nothing of the content."""
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(TokenError, match="token_file") as caught:
        await TokenFile(str(file), lambda: read_secret(str(file))).token()
    assert "two words" not in str(caught.value)


@pytest.mark.parametrize(
    "claims", [b"[" * 50_000, b'{"a":' * 10_000, b'{"exp":NaN}', b'{"exp":1e999}']
)
def test_a_token_whose_claims_are_a_bomb_tells_no_end(claims: bytes) -> None:
    """Neither depth nor a number that is none is a fault."""
    middle = urlsafe_b64encode(claims).decode().rstrip("=")
    assert tokens.expiry_hint(f"e30.{middle}.c2ln") is None


class Scripted(FetchedTokens):
    """Tokens without a thread, for virtual time: `lifetimes` of them, None for a failure."""

    def __init__(self, *lifetimes: float | None) -> None:
        super().__init__("token_endpoint_url", lambda: FetchedToken(Secret(""), 0))
        self.lifetimes = list(lifetimes)
        self.asked = 0

    async def _fetch_in_time(self) -> FetchedToken:
        self.asked += 1
        lifetime_s = self.lifetimes.pop(0)
        if lifetime_s is None:
            raise TokenError("token_endpoint_url: HTTP status 500")
        return FetchedToken(Secret(f"token-{self.asked}"), lifetime_s)


async def test_a_slow_endpoint_serves_the_connection_after_the_one_that_was_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The request is not repeated for each connection, whose time is shorter than that of the endpoint."""

    class Slow(Scripted):
        async def _fetch_in_time(self) -> FetchedToken:
            await trio.sleep(15)
            return await super()._fetch_in_time()

    shared = Slow(1000)
    with pytest.raises(trio.TooSlowError), trio.fail_after(10):
        await shared.token()
    with trio.fail_after(10):
        assert (await shared.token()).reveal() == "token-1"
    assert shared.asked == 1


async def test_a_fault_of_a_request_is_that_of_the_connections_that_wait(
    mock_clock: trio.testing.MockClock,
) -> None:
    """It does not end the process, and a connection asks again a second later."""

    class Broken(Scripted):
        async def _fetch_in_time(self) -> FetchedToken:
            if not self.asked:
                self.asked += 1
                raise LookupError("bug")
            return await super()._fetch_in_time()

    shared = Broken(1000)
    with pytest.raises(LookupError, match="bug"):
        await shared.token()
    mock_clock.jump(tokens.FIRST_BACKOFF_S)
    assert (await shared.token()).reveal() == "token-2"


async def test_a_token_is_replaced_when_a_fifth_of_its_time_is_left(
    mock_clock: trio.testing.MockClock,
) -> None:
    """So a renewal at 85 % of a session's lifetime gets a new token."""
    shared = Scripted(1000, 1000)
    assert (await shared.token()).reveal() == "token-1"
    mock_clock.jump(799)
    assert (await shared.token()).reveal() == "token-1"
    mock_clock.jump(2)
    assert (await shared.token()).reveal() == "token-2"


async def test_failures_are_repeated_later_and_later(mock_clock: trio.testing.MockClock) -> None:
    """Meanwhile there is no request."""
    shared = Scripted(*[None] * 8, 1000, None)
    asked_at = []
    for second in range(200):
        before = shared.asked
        with suppress(TokenError):
            await shared.token()
        if shared.asked > before:
            asked_at.append(second)
        mock_clock.jump(1)
    assert asked_at == [0, 1, 3, 7, 15, 31, 61, 91, 121]


@pytest.mark.parametrize(
    ("token", "expiry"),
    [
        (jwt({"exp": 1_900_000_000}), 1_900_000_000),
        (jwt({"exp": 1_900_000_000.5}), 1_900_000_000.5),
        (jwt({"exp": True}), None),
        (jwt({"exp": "soon"}), None),
        (jwt({"exp": 1e300}), None),
        (jwt([1]), None),
        (jwt({}), None),
        ("opaque", None),
        ("a.b.c", None),
        ("a." + "W" * 60_000 + ".c", None),
    ],
)
def test_the_expiry_in_a_token_is_only_a_hint(token: str, expiry: float | None) -> None:
    """A token without a readable expiry is as good as any other."""
    assert expiry_hint(token) == expiry
