"""Patterns of names: a name, or the beginning of names and `*`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.name_patterns import NamePatterns, pattern_mistake

NAMES = st.text("ab*", min_size=1, max_size=3)


@given(st.lists(NAMES, max_size=4), st.text("ab", max_size=4))
def test_a_pattern_is_a_name_or_a_beginning(patterns: list[str], name: str) -> None:
    """Only a `*` at the end stands for anything."""
    expected = any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns
    )
    found = NamePatterns.of(patterns)

    assert found.has(name) == expected
    assert bool(found) == bool(patterns)
    assert found.everything == ("*" in patterns)


@pytest.mark.parametrize(
    ("pattern", "is_mistake"),
    [("a", False), ("a*", False), ("*", False), ("", True), ("*a", True), ("a**", True)],
)
def test_a_star_stands_only_at_the_end(pattern: str, *, is_mistake: bool) -> None:
    """The problem names the path and the pattern."""
    found = list(pattern_mistake("rules[0]", pattern))

    assert [each.path for each in found] == ["rules[0]"] * is_mistake
