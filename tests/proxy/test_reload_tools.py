"""Counts and watched files of policies, over a reload."""

from pathlib import Path

import pytest

from policies import registry
from policies.chain import Chain, Entry, PolicyFault
from policies.registry import PolicyEntry
from proxy.policy_services import PolicyServices
from tests.support.plugins.tool_user import ToolUser
from tests.support.processes.admin_room import roomy


def test_tools_follow_the_chain_in_force(tmp_path: Path) -> None:
    """Counts are kept, and only the new policy watches its file. A chain that cannot be made watches none."""
    file = tmp_path / "state"
    file.write_bytes(b"one")
    use, config = "tests.support.plugins.file_reader:FileReader", {"path": str(file)}
    with roomy() as room:
        services = PolicyServices()
        services.attach(room.engine)
        counting = PolicyEntry(use="tests.support.plugins.tool_user:ToolUser", name="counts")

        def built() -> list[Entry]:
            return registry.build(
                [PolicyEntry(use=use, name="reads", config=config), counting], services
            )

        before, after, never = built(), built(), built()
        room.engine.chain = Chain(before, room.watcher)
        assert isinstance(before[1].policy, ToolUser)
        before[1].policy.asked.add(3, "Fetch")
        room.reloader._adopt(after)
        never[0].policy.tick_ms = -1
        with pytest.raises(PolicyFault):
            room.reloader._adopt(never)

        assert isinstance(after[1].policy, ToolUser)
        assert after[1].policy.asked.series == {("Fetch",): 3}
        reads = [each[0].tools for each in (before, after, never)]
        assert [each is not None and each._is_retired for each in reads] == [True, False, True]
