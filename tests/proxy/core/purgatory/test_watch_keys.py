"""Watch keys: a policy's own key types run none of their code inside the purgatory."""

import pytest

from proxy.core.purgatory.watch_keys import text_of, watch_key


class Named:
    """Equality is by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return (other.name if isinstance(other, Named) else other) == self.name


class Odd:
    """Has a constant hash; comparing or printing it raises."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        raise SystemExit(3)

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("key", ["a", 5, b"a", None, True, 2.5, object()])
def test_a_key_of_a_built_in_type_is_used_as_it_is(key):
    """So is a key with identity as its equality."""
    assert watch_key(key) is key


def test_a_key_of_a_policys_own_type_matches_equal_keys():
    """It matches in both directions, and among built-in keys."""
    watched = {watch_key(Named("a")): 1, watch_key(("b", 2)): 2, watch_key("c"): 3}
    assert watched[watch_key(Named("a"))] == 1
    assert watched[watch_key("a")] == 1
    assert watched[watch_key(("b", 2))] == 2
    assert watched[watch_key(Named("c"))] == 3
    assert watch_key(Named("d")) not in watched


def test_a_key_whose_str_raises_gets_a_replacement_text():
    """A trace shows what is wrong with it."""
    assert text_of(Odd()) == "a Odd whose str raises SystemExit"
    assert text_of("orders") == "orders"
    assert len(text_of("x" * 10_000)) == 249
