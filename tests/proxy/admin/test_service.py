"""The service below the admin server and the metrics; the HTTP side is tested in test_routes and test_health."""

import pytest
import structlog
import trio.testing

from proxy.admin.errors import AdminError
from proxy.core.errors import CloseReason
from tests.support.processes.admin_room import config_of, quota_entry, roomy


@pytest.fixture
def room():
    with roomy(policies=(quota_entry(),)) as made, structlog.testing.capture_logs():
        yield made


# -- state -------------------------------------------------------------------------------------------


def test_telemetry_that_is_off_drops_nothing(room):
    """Neither spans nor usage rows."""
    facts = room.service.facts()
    assert (facts.spans_dropped, facts.usage_rows_dropped) == (0, 0)
    assert (facts.draining, facts.reloads.last_ok) == (False, None)
    assert facts.process.open_fds > 0


# -- control -----------------------------------------------------------------------------------------


def test_a_connection_is_closed_at_once_by_its_id(room):
    """Its close reason is OPERATOR; an unknown id closes nothing."""
    client, broker, session = room.link()
    assert not room.service.close_connection(session.peer.session_id + 1)
    assert room.service.close_connection(session.peer.session_id)
    assert session.ended
    assert client.recv(1) == b""
    for each in (client, broker):
        each.close()
    for _ in range(20):
        room.event_loop.step(0)
    assert [reason for reason, _ in room.watcher.closed] == [CloseReason.OPERATOR]


async def test_a_second_reload_at_once_is_refused(room, nursery):
    """409: the caller could not know which file was read."""
    room.may_load.clear()
    nursery.start_soon(room.service.reload)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(AdminError) as refused:
        await room.service.reload()
    assert refused.value.status == 409
    room.may_load.set()


async def test_the_outcome_of_a_reload_is_kept(room):
    """When it ended, how it ended, and the hash of the configuration in force."""
    service = room.service
    before = service.config_hash
    room.settings = config_of()
    reloaded = await service.reload()
    assert (reloaded.ok, reloaded.changed) == (True, ["policies"])
    assert service.config_hash != before
    assert service.reloaded_ms >= room.reloader.tally.policies_ms > 0
    room.settings = OSError("gone")
    assert not (await service.reload()).ok
    reloads = service.facts().reloads
    assert (reloads.succeeded, reloads.failed, reloads.last_ok) == (1, 1, False)
