"""Watch keys: a policy's own kinds of keys run no code of theirs that could raise into the purgatory."""

from __future__ import annotations

import pytest

from proxy.core.purgatory.watch_keys import held_key, text_of, watch_key


class Named:
    """Equal by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return (other.name if isinstance(other, Named) else other) == self.name


class Odd:
    """Always the same hash; comparing or printing it raises."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        raise SystemExit(3)

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("key", ["a", 5, b"a", None, True, 2.5, object()])
def test_a_key_of_a_built_in_kind_stays_as_it_is(key):
    """And so does one that equals itself alone."""
    assert watch_key(key) is key


def test_a_key_of_a_policys_own_kind_finds_what_it_equals():
    """In both directions, and among plain keys."""
    watched = {watch_key(Named("a")): 1, watch_key(("b", 2)): 2, watch_key("c"): 3}
    assert watched[watch_key(Named("a"))] == 1
    assert watched[watch_key("a")] == 1
    assert watched[watch_key(("b", 2))] == 2
    assert watched[watch_key(Named("c"))] == 3
    assert watch_key(Named("d")) not in watched


def test_a_key_whose_comparison_raises_equals_itself_alone():
    """Another policy's key with the same hash is found all the same."""
    odd = Odd()
    watched = {watch_key(odd): 1, watch_key("a"): 2}
    assert watched[watch_key(odd)] == 1
    assert watched[watch_key("a")] == 2
    assert watch_key(Odd()) not in watched


def test_a_key_that_cannot_be_hashed_raises_where_it_enters():
    """In the hook of whoever used it."""
    with pytest.raises(TypeError):
        watch_key(["a"])  # type: ignore[arg-type]


def test_a_key_whose_text_raises_has_a_text():
    """A trace says what is wrong with it."""
    assert text_of(Odd()) == "a Odd whose str raises SystemExit"
    assert text_of("orders") == "orders"
    assert len(text_of("x" * 10_000)) == 249


def test_what_cannot_be_hashed_any_more_is_held_under_what_waits():
    """Nothing finds it, and nothing is raised."""
    assert held_key(["a"], "held") == "held"  # type: ignore[arg-type]
    assert held_key("a", "held") == "a"
