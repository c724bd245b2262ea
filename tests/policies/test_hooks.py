"""Hooks: the position that a request keeps in the chain, and the cost of an API without policies."""

from policies.api import FORWARD, Need
from policies.hooks import ASKED_ALL, COMPLETED, ChainPosition, Hooks


def test_hooks_of_an_api_without_entries_need_the_header_only():
    """No hook is set and no entry is named."""
    assert Hooks() == (Need.HEADER, None, None, None, None, False, (), (), None, None)


def test_a_request_starts_at_the_first_entry_with_nothing_joined():
    """The position of a request that was never held."""
    assert ChainPosition() == (0, FORWARD, 0, None)


def test_the_marks_are_outside_the_places_of_entries():
    """A place is compared with `asked`: below every place means told, above means asked of all."""
    assert COMPLETED < 0
    assert ASKED_ALL > 10_000
