"""Tokens are checked once, by a service that the test runs, with the keys of the moment."""

import pytest

from proxy.core.auth.bearer_tokens import (
    MAX_REMEMBERED,
    MAX_RENEWING,
    MAX_TOKEN_BYTES,
    BearerTokens,
    Judgement,
    TokenFacts,
    TokenFault,
    Unjudged,
)
from tests.support.core.token_logins import SKEW_MS, Keys, bearer_tokens, token_of
from tests.support.shell.sasl_service import Checker

ALICE = TokenFacts("alice", frozenset(), 0, 600_000)


class Book:
    """The tokens, the keys, the thread, and what was said."""

    def __init__(self, *kids: str, max_waiting: int = 1000) -> None:
        self.keys = Keys(*kids)
        self.checker = Checker(max_waiting)
        self.tokens: BearerTokens = bearer_tokens(self.keys, self.checker)
        self.said: list[Judgement] = []

    def ask(self, token: bytes) -> Judgement | None:
        return self.tokens.begin_check(token, "10.0.0.1", self.said.append)


def test_a_token_is_judged_when_the_service_says_so_and_remembered() -> None:
    """What it said is found at once the next time; a wrong one is checked again."""
    book = Book("a")
    for token in (token_of(), b"wrong", b"wrong"):
        assert book.tokens.find(token) is None
        assert book.ask(token) is None
    assert book.said == []
    book.checker.run_all()
    assert book.said == [ALICE, TokenFault("it is no JWT"), TokenFault("it is no JWT")]
    assert book.tokens.find(token_of()) == ALICE
    assert book.tokens.find(b"wrong") is None


def test_the_same_token_is_checked_once() -> None:
    """A pool of clients that connects at once waits for one check."""
    book = Book("a", max_waiting=1)
    assert [book.ask(token_of()) for _ in range(50)] == [None] * 50
    book.checker.run_all()
    assert book.said == [ALICE] * 50
    assert book.checker.done == 1


def test_other_keys_make_all_tokens_unknown() -> None:
    """A token that was signed by a key that is gone counts no more at the next login."""
    book = Book("a")
    book.ask(token_of())
    book.checker.run_all()
    book.keys.rotate("b")
    assert book.tokens.find(token_of()) is None
    book.keys.renewals = 0
    assert book.ask(token_of()) is None
    book.checker.run_all()
    assert book.said[1:] == [TokenFault("the key that signed it is not known")]


def test_a_token_that_was_checked_by_old_keys_is_not_known_under_new_ones() -> None:
    """Its check began before they came."""
    book = Book("a")
    book.ask(token_of())
    book.keys.rotate("a", "b")
    book.checker.run_all()
    assert book.said == [ALICE]
    assert book.tokens.find(token_of()) is None


def test_an_unknown_key_has_the_keys_loaded_once() -> None:
    """Then the token counts, and is remembered under the new keys."""
    book = Book("a")
    book.keys.published = frozenset({"a", "b"})
    book.ask(token_of(kid="b"))
    book.checker.run_all()
    assert book.said == []
    assert book.keys.load() == 1
    book.checker.run_all()
    assert book.said == [ALICE]
    assert book.tokens.find(token_of(kid="b")) == ALICE


def test_a_key_that_stays_unknown_refuses_the_token() -> None:
    """It is not loaded a second time for the same token, nor if it is too early."""
    book = Book("a")
    book.keys.renewals = 2
    book.ask(token_of(kid="b"))
    book.checker.run_all()
    book.keys.load()
    book.checker.run_all()
    assert book.said == [TokenFault("the key that signed it is not known")]
    book.keys.renewals = 0
    book.ask(token_of(kid="c"))
    book.checker.run_all()
    assert len(book.said) == 2


def test_keys_that_cannot_be_loaded_say_nothing_about_the_token() -> None:
    """Its client is told nothing, and comes again."""
    book = Book("a")
    book.keys.published = None
    book.ask(token_of(kid="b"))
    book.checker.run_all()
    book.keys.load()
    assert book.said == [Unjudged.NO_KEYS]
    assert book.ask(token_of()) is None
    book.checker.run_all()
    assert book.said[1:] == [ALICE]


def test_without_keys_no_token_is_accepted() -> None:
    """Also none that was accepted before they became too old; it waits for them as long as they are being loaded."""
    book = Book("a")
    book.ask(token_of())
    book.checker.run_all()
    book.keys.revision = 0
    assert book.tokens.find(token_of()) is None
    assert book.ask(token_of()) is None
    assert book.checker.waiting == Checker().waiting
    book.keys.load()
    book.checker.run_all()
    assert book.said == [ALICE, ALICE]
    book.keys.revision = book.keys.renewals = 0
    assert book.ask(token_of()) is Unjudged.NO_KEYS


def test_few_tokens_wait_for_keys() -> None:
    """The others are refused at once, so that a flood keeps no memory."""
    book = Book()
    said = [book.ask(token_of(serial=number)) for number in range(MAX_RENEWING + 5)]
    assert said == [None] * MAX_RENEWING + [Unjudged.NO_KEYS] * 5
    book.keys.published = frozenset({"a"})
    book.keys.load()
    book.checker.run_all()
    assert book.said == [ALICE] * MAX_RENEWING
    assert book.tokens._waiting == {}
    assert book.tokens._renewing == 0


def test_a_full_thread_says_nothing_about_the_token() -> None:
    """Whether it is refused at once, loses its place later, or after the keys have come."""
    book = Book("a", max_waiting=1)
    assert book.ask(token_of()) is None
    assert book.ask(token_of(serial=1)) is Unjudged.NO_ROOM
    book.checker.drop_all()
    assert book.said == [Unjudged.NO_ROOM]
    book.ask(token_of(kid="b"))
    book.checker.run_all()
    book.ask(token_of(serial=2))
    book.keys.load()
    assert book.said == [Unjudged.NO_ROOM] * 2


def test_a_huge_token_is_refused_unread() -> None:
    """Nothing of it is kept."""
    book = Book("a")
    assert isinstance(book.ask(b"x" * (MAX_TOKEN_BYTES + 1)), TokenFault)
    assert not book.checker.waiting


def test_the_memory_of_tokens_is_bounded() -> None:
    """The one that was used least lately is forgotten. None of them is kept itself."""
    book = Book("a", max_waiting=1 << 20)
    for number in range(MAX_REMEMBERED):
        book.ask(token_of(serial=number))
    book.checker.run_all()
    assert book.tokens.find(token_of(serial=0)) == ALICE
    book.ask(token_of(serial=MAX_REMEMBERED))
    book.checker.run_all()
    assert len(book.tokens._said) == MAX_REMEMBERED
    assert book.tokens.find(token_of(serial=0)) == ALICE
    assert book.tokens.find(token_of(serial=1)) is None
    assert all(len(mark) == 32 for mark in book.tokens._said)


@pytest.mark.parametrize(
    ("now_ms", "holds", "left_ms"),
    [
        (10_000 - SKEW_MS - 1, False, None),
        (10_000 - SKEW_MS, True, 600_000 - 10_000 + SKEW_MS),
        (10_000, True, 590_000),
        (599_999, True, 1),
        (600_000, True, SKEW_MS),
        (600_000 + SKEW_MS - 1, True, 1),
        (600_000 + SKEW_MS, False, None),
    ],
)
def test_a_token_holds_in_its_time_as_far_as_clocks_differ(
    now_ms: int, *, holds: bool, left_ms: int | None
) -> None:
    """A session by it ends with it, or after the difference if it has just ended."""
    tokens = Book("a").tokens
    facts = TokenFacts("alice", frozenset(), 10_000, 600_000)
    assert (tokens.fault_at(facts, now_ms) == "") is holds
    if left_ms is not None:
        assert tokens.left_ms(facts, now_ms) == left_ms
