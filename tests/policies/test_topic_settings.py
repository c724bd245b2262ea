"""The settings of `topics`: patterns of names, the access that each API needs, and mistakes with their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.name_patterns import NamePatterns, pattern_mistake
from policies.testing import PolicyBench
from policies.topic_settings import ANY, MANAGE, OPEN, READ, WRITE, access_needed
from policies.topics import TopicRules
from policies.validation import SettingsError
from tests.support.messages.every_case import for_each
from wire.apis import OFFERED, ApiKey, name_of
from wire.request_layouts import names_anything


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"rules": []}, "rules"),
        ({"rules": [{"user": "bob"}]}, "rules[0]"),
        ({"rules": [{"topics": ["a*b"]}]}, "rules[0].topics[0]"),
        ({"rules": [{"groups": ["a", ""]}]}, "rules[0].groups[1]"),
        ({"rules": [{"topics": ["a"], "user": "*x"}]}, "rules[0].user"),
        ({"rules": [{"topics": ["a"], "access": []}]}, "rules[0].access"),
        ({"rules": [{"topics": ["a"], "access": ["delete"]}]}, "rules[0].access[0]"),
        ({"rules": [{"topic": ["a"]}]}, "rules[0].topic"),
    ],
)
def test_a_mistake_in_a_rule_is_named(config: dict[str, object], path: str) -> None:
    """The error has the path of the setting."""
    with pytest.raises(SettingsError) as caught:
        PolicyBench(TopicRules, config)
    assert any(path in str(each) for each in caught.value.problems), caught.value.problems


CHANGES = ("Create", "Delete", "Alter", "Incremental", "Elect", "WriteTxn", "OffsetDelete")
IDS_ONLY = {ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.DESCRIBE_TRANSACTIONS}
NAMED = [key for key in OFFERED if names_anything(key) and key not in IDS_ONLY]


@for_each(NAMED)
def test_an_api_that_changes_something_needs_the_right_to_manage(key: int) -> None:
    """By its name; no other API needs it."""
    assert (access_needed(key) == MANAGE) == name_of(key).startswith(CHANGES)


def test_only_requests_that_name_topics_change_them() -> None:
    """Records are read and written by their own rights, and any access is enough to see a topic."""
    assert access_needed(ApiKey.FETCH) == READ
    assert access_needed(ApiKey.PRODUCE) == WRITE
    assert access_needed(ApiKey.METADATA) == ANY == READ | WRITE | MANAGE

    assert not [name_of(key) for key in OPEN if access_needed(key) == MANAGE]


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
