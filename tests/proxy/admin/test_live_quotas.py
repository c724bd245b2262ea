"""Live changes of quotas, and the quota that binds a client; the HTTP side is tested in test_routes."""

import pytest
import structlog

from policies.api import EffectiveQuota, Policy
from policies.chain import Chain, Entry
from proxy.config.sections import LogSettings
from proxy.telemetry import log
from tests.support.processes.admin_room import AdminRoom, config_of, quota_entry, roomy

BOB = [{"user": "bob", "request_rate": 7}]


@pytest.fixture
def room():
    with roomy(policies=(quota_entry(),)) as made, structlog.testing.capture_logs():
        yield made


class FixedQuota(Policy):
    """A policy that reports the same quota in force for every client."""

    Config = dict

    def __init__(self, found: EffectiveQuota | None) -> None:
        super().__init__({}, None)  # type: ignore[arg-type]
        self.found = found

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        return self.found


def chained(room: AdminRoom, *entries: Entry) -> None:
    room.engine.chain = Chain(list(entries), room.watcher)


def changed(room: AdminRoom, user: str, limits: dict[str, float | None], rev: str | None = None):
    return room.service.live_quotas.change(user, None, limits, rev, room.engine.now_ms)


def test_the_first_policy_with_a_quota_has_it_in_force(room):
    """A policy in mode `observe` and one without a quota are skipped; without any it is None, not a limit of 0."""
    first, second = (
        EffectiveQuota("entity", each, 5.0, "1") for each in ("user alice", "user bob")
    )
    chained(
        room,
        Entry("watches", FixedQuota(EffectiveQuota("entity", "bob", 1.0, "1")), "observe"),
        Entry("silent", FixedQuota(None)),
        Entry("first", FixedQuota(first)),
        Entry("second", FixedQuota(second)),
    )
    assert room.service.live_quotas.effective_quota("alice", "c") == first
    assert room.service.quota_rate("alice") == 5.0
    found = room.service.live_quotas.binding_limit("alice", "c", room.engine.now_ms)
    assert (found.entity, found.quota, found.limit) == ("user alice", "request_rate", 5.0)

    chained(room, Entry("silent", FixedQuota(None)))
    assert room.service.live_quotas.effective_quota("alice", "c") is None
    assert room.service.live_quotas.binding_limit("alice", "c", room.engine.now_ms) is None
    assert room.service.quota_rate("alice") is None


async def test_the_revision_changes_when_the_quotas_may_have_changed(room):
    """After a live change and after a reload that builds policies; not after a reload without a difference."""
    live_quotas = room.service.live_quotas
    revs = [live_quotas.listed().rev]
    assert changed(room, "alice", {"request_rate": 5}, revs[0]).rev != revs[0]
    revs.append(live_quotas.listed().rev)
    room.settings = config_of(policies=(quota_entry(),), log=LogSettings(level=log.level()))
    await room.service.reload()
    assert live_quotas.listed().rev == revs[1]
    room.settings = config_of(policies=(quota_entry(quotas=BOB),))
    assert (await room.service.reload()).changed == ["policies"]
    assert live_quotas.listed().rev not in revs
