"""A reload reads the files of policies again: a changed one is applied, a bad one changes nothing."""

from pathlib import Path

import pytest

from policies.registry import PolicyEntry
from policies.validation import SettingsError
from proxy.config.changes import hash_of
from proxy.config.sources import load
from tests.support.processes.admin_room import AdminRoom, config_of, roomy

QUOTAS = "version: 1\nquotas: [{{user: alice, request_rate: {}}}]\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder with both files."""
    (tmp_path / "sluice.yaml").write_text(
        "upstream: {bootstrap_servers: ['127.0.0.1:9092']}\n"
        f"policies: [{{use: quota, config: {{quotas_file: {tmp_path / 'quotas.yaml'}}}}}]\n"
    )
    (tmp_path / "quotas.yaml").write_text(QUOTAS.format(10))
    return tmp_path


def rate(room: AdminRoom) -> float | None:
    held = room.engine.chain.effective_quota("alice", "")
    return None if held is None else held.rate


def policies(folder: Path) -> tuple[PolicyEntry, ...]:
    return load(folder / "sluice.yaml", {}, {}, keep_policies=True).config.policies


async def reload(room: AdminRoom, folder: Path) -> tuple[bool, tuple[str, ...]]:
    """Reload from the folder's files; return whether it was applied, and the changes or problems."""
    try:
        room.settings = config_of(policies=policies(folder))
    except SettingsError as error:
        room.settings = error
    result = await room.reloader.reload()
    return result.ok, result.changed or result.problems


async def test_a_changed_quotas_file_is_applied_at_a_reload(files: Path) -> None:
    """The configuration is the same; its hash covers the file. The file's limits hold, and live ones stay."""
    with roomy(policies=policies(files)) as room:
        assert rate(room) == 10
        before = room.reloader.config_hash
        assert await reload(room, files) == (True, ())
        assert room.reloader.config_hash == before == hash_of(room.reloader.config)
        (files / "quotas.yaml").write_text(QUOTAS.format(20))
        assert await reload(room, files) == (True, ("policies",))
        assert rate(room) == 20
        assert room.reloader.config_hash != before
        room.service.live_quotas.change("alice", None, {"request_rate": 5.0}, None, 0)
        (files / "quotas.yaml").write_text(QUOTAS.format(30))
        assert (await reload(room, files))[0]
        assert rate(room) == 5
        room.service.live_quotas.change("alice", None, {"request_rate": None}, None, 0)
        assert rate(room) == 30


async def test_a_bad_quotas_file_changes_nothing_at_a_reload(files: Path) -> None:
    """The problem names the setting and the place in the file; a corrected file is applied."""
    with roomy(policies=policies(files)) as room:
        (files / "quotas.yaml").write_text(QUOTAS.format("many"))
        ok, (problem,) = await reload(room, files)
        assert not ok
        assert "policies[0].config.quotas_file" in problem
        assert "quotas.yaml:2): found 'many', expected a number above 0, per second" in problem
        (files / "quotas.yaml").unlink()
        ok, (problem,) = await reload(room, files)
        assert "cannot be read: No such file or directory" in problem
        assert (ok, rate(room)) == (False, 10)
        (files / "quotas.yaml").write_text(QUOTAS.format(20))
        assert await reload(room, files) == (True, ("policies",))
        assert rate(room) == 20


COUNTS = '''
"""Counts."""
import msgspec
from policies.api import FORWARD, Policy


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None."""


class Counts(Policy):
    """Counts requests in steps."""

    Config = Settings
    step = {step}
    count = 0

    def adopt(self, previous):
        self.count = previous.count

    def on_tick(self, now_ms):
        self.count += self.step
'''


async def test_a_changed_file_of_policies_path_takes_over_the_state(tmp_path: Path) -> None:
    """Its class is a new one of the same name; a broken file keeps the policy that runs."""
    file = tmp_path / "policies" / "counts.py"
    file.parent.mkdir()
    file.write_text(COUNTS.format(step=1))
    (tmp_path / "sluice.yaml").write_text(
        "upstream: {bootstrap_servers: ['127.0.0.1:9092']}\n"
        f"policies_path: [{file.parent}]\npolicies: [{{use: counts}}]\n"
    )
    with roomy(policies=policies(tmp_path)) as room:
        policy = room.engine.chain.entries[0].policy
        policy.on_tick(0)
        assert await reload(room, tmp_path) == (True, ())
        file.write_text(COUNTS.format(step=10))
        assert await reload(room, tmp_path) == (True, ("policies",))
        after = room.engine.chain.entries[0].policy
        after.on_tick(0)
        assert (after is policy, after.count) == (False, 11)

        file.write_text("no python")
        ok, reasons = await reload(room, tmp_path)
        assert (ok, room.engine.chain.entries[0].policy is after) == (False, True)
        assert f"{file}:1 cannot be imported: SyntaxError" in reasons[0]
