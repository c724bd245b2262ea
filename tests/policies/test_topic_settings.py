"""The settings of `topics`: mistakes are named with their place."""

import pytest

from policies.testing import PolicyBench
from policies.topics import TopicRules
from policies.validation import SettingsError


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
