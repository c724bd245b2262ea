"""The keys while Sluice runs: loaded again, rotated, stale, and never asked for too often. Time is virtual."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio
from structlog.testing import capture_logs

from proxy.config.small_files import FileError
from proxy.core.auth.bearer_tokens import TokenFacts, UnknownKey
from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.tokens.claims import ClaimRules
from proxy.tokens.key_set import KeySet, KeySetError
from proxy.tokens.loaded_keys import MAX_BACKOFF_S, MIN_INTERVAL_S, TOTAL_S, LoadedKeys
from tests.support.shell.token_issuer import AUDIENCE, ISSUER, jwks, signed

REFRESH_S, STALE_S = 3600.0, 86_400.0
RULES = ClaimRules(ISSUER, frozenset({AUDIENCE}), "sub", PrincipalMapper(("DEFAULT",)))


class Source:
    """A provider that gives `content`, or raises it."""

    def __init__(self, *kids: str) -> None:
        self.content: bytes | Exception = jwks(*kids) if kids else KeySetError("HTTP status 503")
        self.asked_at: list[float] = []
        self.takes_s = 0.1
        self.woken = 0
        self.faults: list[Exception] = []
        self.keys = LoadedKeys(
            self._read,
            ("ES256",),
            RULES,
            refresh_s=REFRESH_S,
            max_stale_s=STALE_S,
            wake=self._wake,
            report=self.faults.append,
            in_thread=self._at_once,
        )

    async def _at_once(self, read: Callable[[], KeySet]) -> KeySet:
        await trio.sleep(self.takes_s)
        return read()

    def _read(self) -> bytes:
        self.asked_at.append(trio.current_time())
        if isinstance(self.content, Exception):
            raise self.content
        return self.content

    def _wake(self) -> None:
        self.woken += 1

    def says(self, kid: str) -> object:
        return self.keys.check_of(signed(kid)).run()


async def test_keys_are_loaded_at_the_start_and_again_each_hour(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Until the first time there are none. The same keys have the same revision, others another one."""
    source = Source("ES256-a")
    assert source.keys.revision == 0
    assert source.says("ES256-a") is UnknownKey.UNKNOWN_KEY
    nursery.start_soon(source.keys.run)
    await trio.sleep(1)
    assert source.keys.revision == 1
    assert isinstance(source.says("ES256-a"), TokenFacts)
    await trio.sleep(REFRESH_S)
    assert (len(source.asked_at), source.keys.revision) == (2, 1)
    source.content = jwks("ES256-b")
    await trio.sleep(REFRESH_S)
    assert source.keys.revision == 2
    assert source.says("ES256-a") is UnknownKey.UNKNOWN_KEY
    assert isinstance(source.says("ES256-b"), TokenFacts)


async def test_an_unknown_key_has_them_loaded_at_once_but_not_again_and_again(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Made-up ids are no way to flood the provider; those that ask meanwhile share one load."""
    source, told = Source("ES256-a"), []
    nursery.start_soon(source.keys.run)
    await trio.sleep(MIN_INTERVAL_S + 1)
    source.content = jwks("ES256-a", "ES256-b")
    assert source.keys.try_renew(told.append)
    assert source.keys.try_renew(told.append)
    await trio.sleep(1)
    assert (told, len(source.asked_at), source.woken) == ([True, True], 2, 1)
    assert isinstance(source.says("ES256-b"), TokenFacts)
    for _ in range(100):
        assert not source.keys.try_renew(told.append)
    await trio.sleep(MIN_INTERVAL_S)
    assert source.keys.try_renew(told.append)
    await trio.sleep(1)
    assert (len(told), len(source.asked_at)) == (3, 3)


@pytest.mark.parametrize(
    "fault",
    [KeySetError("HTTP status 503"), FileError("x", "y"), RuntimeError("bug"), b"<html>", b"{}"],
    ids=repr,
)
async def test_what_cannot_be_loaded_leaves_the_old_keys_for_a_bounded_time(
    fault: bytes | Exception, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """It is tried again, later each time; after `max_stale_s` there are no keys until it works again."""
    source = Source("ES256-a")
    nursery.start_soon(source.keys.run)
    await trio.sleep(1)
    source.content = fault
    with capture_logs() as lines:
        await trio.sleep(STALE_S - 60)
        assert source.keys.revision == 1
        await trio.sleep(120)
        assert source.keys.revision == 0
    assert source.keys.failures > 100
    gaps = [b - a for a, b in zip(source.asked_at[2:], source.asked_at[3:], strict=False)]
    assert max(gaps) == pytest.approx(MAX_BACKOFF_S, abs=1)
    assert {line["event"] for line in lines} == {"token_keys_refused"}
    assert lines[0]["effect"].startswith("the old keys are used for ")
    assert lines[-1]["effect"] == "no token is accepted"
    source.content = jwks("ES256-a")
    await trio.sleep(MAX_BACKOFF_S + 1)
    assert source.keys.revision == 1
    assert isinstance(source.says("ES256-a"), TokenFacts)


async def test_those_that_wait_hear_of_a_failure_and_one_that_raises_harms_no_other(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """A fault costs one session only."""
    source = Source()
    nursery.start_soon(source.keys.run)
    await trio.sleep(MIN_INTERVAL_S + 70)
    told: list[bool] = []

    def stumble(is_loaded: bool) -> None:  # noqa: FBT001 - the result
        raise RuntimeError

    thens: list[Callable[[bool], None]] = [told.append, stumble, told.append]
    assert all(source.keys.try_renew(each) for each in thens)
    await trio.sleep(1)
    assert told == [False, False]
    assert [type(each) for each in source.faults] == [RuntimeError]


async def test_a_load_that_takes_too_long_is_left_behind(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Those that wait are told after TOTAL_S; the next load is another thread's."""
    source, told = Source("ES256-a"), []
    source.takes_s = 10 * TOTAL_S
    assert source.keys.try_renew(told.append)
    began = trio.current_time()
    assert await source.keys.load() == f"no answer within {TOTAL_S:g} s"
    assert (trio.current_time() - began, told) == (TOTAL_S, [False])
    source.takes_s = 0
    assert await source.keys.load() == ""
    assert source.keys.revision == 1


async def test_two_loads_come_one_after_the_other(autojump_clock: trio.testing.MockClock) -> None:
    """A reload by an operator meets the one that is under way; both say what they found."""
    source, said = Source("ES256-a"), []

    async def load() -> None:
        said.append((await source.keys.load(), trio.current_time()))

    async with trio.open_nursery() as both:
        both.start_soon(load)
        both.start_soon(load)
    assert [why for why, _ in said] == ["", ""]
    assert source.asked_at[1] - source.asked_at[0] == pytest.approx(0.1)


async def test_the_keys_are_read_in_a_thread() -> None:
    """Parsing them takes milliseconds, which the event loop does not have."""
    seen: list[int] = []

    def read() -> bytes:
        seen.append(threading.get_ident())
        return jwks("ES256-a")

    keys = LoadedKeys(
        read, ("ES256",), RULES, refresh_s=1, max_stale_s=1, wake=list, report=pytest.fail
    )
    assert await keys.load() == ""
    assert seen != [threading.get_ident()]
    assert keys.loaded_ms > 1_700_000_000_000


async def test_keys_that_were_read_before_the_start_become_too_old_like_others(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """A file that is gone from then on is no key for ever."""
    source = Source("ES256-a")
    source.keys._read = lambda: jwks("ES256-a")
    source.keys.begin()
    assert source.keys.revision == 1
    source.keys._read = source._read
    source.content = FileError("x", "y")
    nursery.start_soon(source.keys.run)
    await trio.sleep(STALE_S - 60)
    assert source.keys.revision == 1
    await trio.sleep(120)
    assert source.keys.revision == 0
