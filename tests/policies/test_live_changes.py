"""Which policies an operator can change, by the methods that they have."""

import msgspec

from policies.limits import Limits
from policies.live_changes import TakesLiveChanges
from policies.maintenance import Maintenance
from policies.testing import PolicyBench


def test_a_policy_with_both_methods_takes_live_changes() -> None:
    """Its state is an object that JSON has, and the policy takes it as a change."""
    policy = PolicyBench(Maintenance, {"pauses": [{"topic": "orders"}]}).policy
    assert isinstance(policy, TakesLiveChanges)
    shown = msgspec.json.decode(msgspec.json.encode(policy.live_state()))
    policy.change_live({"pauses": shown["settings"]}, 0)
    assert msgspec.to_builtins(policy.live_state())["pauses"][0]["topic"] == "orders"


def test_a_policy_without_them_takes_none() -> None:
    """It is changed by its settings and a reload."""
    assert not isinstance(PolicyBench(Limits, {}).policy, TakesLiveChanges)
