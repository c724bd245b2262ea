"""access: settings that are valid and trust what any client can say."""

from policies.access.policy import Access
from policies.testing import PolicyBench


def test_a_client_id_that_is_allowed_something_is_told() -> None:
    """In a rule, or as a member of a team; one that is denied needs no care."""
    rules = [
        {"who": ["bob", "client:etl-*"], "topics": {"a": ["read"]}},
        {"who": ["client:bad"], "effect": "deny", "topics": {"a": ["read"]}},
    ]
    teams = {"etl": ["carl", "client:etl"]}

    hints = list(PolicyBench(Access, {"rules": rules, "teams": teams}).policy.hints())

    assert [hint.partition(": ")[0] for hint in hints] == ["rules[0].who[1]", "teams.etl[1]"]
    assert "proof" in hints[0]
