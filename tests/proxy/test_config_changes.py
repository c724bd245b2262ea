"""The differences between two configurations: key paths, whole lists as one, and files that policies have read."""

from policies.registry import PolicyEntry
from proxy.config_changes import changes, hash_of
from tests.support.processes.admin_room import config_of


def test_each_key_path_that_differs_is_named_once() -> None:
    """A list is one value; equal configurations have no difference and the same hash."""
    before = config_of(policies=(PolicyEntry(use="limits"),))
    after = config_of(policies=(PolicyEntry(use="limits", mode="observe"),), policies_path=("a",))

    assert list(changes(before, before)) == []
    assert sorted(changes(before, after)) == ["policies", "policies_path"]
    assert hash_of(before) == hash_of(config_of(policies=(PolicyEntry(use="limits"),)))
    assert hash_of(before) != hash_of(after)
