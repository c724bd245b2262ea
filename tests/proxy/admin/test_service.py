"""The service below the admin server and the metrics; the HTTP side is tested in test_control."""

import threading

import pytest
import structlog
import trio.testing

from proxy.admin.errors import AdminError
from proxy.core.errors import CloseReason
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.processes.admin_room import config_of, quota_entry, roomy


@pytest.fixture
def room():
    with roomy(policies=(quota_entry(),)) as made, structlog.testing.capture_logs():
        yield made


# -- state -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drained", "full", "bad"),
    [(False, False, set()), (True, False, {"serving"}), (False, True, {"connections"})],
)
def test_the_proxy_is_ready_unless_it_drains_or_is_full(room, drained, full, bad):
    """The check that fails names the reason."""
    room.drained, room.full = drained, full
    assert {each.name for each in room.service.readiness() if not each.ok} == bad


def test_telemetry_that_is_off_drops_nothing(room):
    """Neither spans nor usage rows."""
    facts = room.service.facts()
    assert (facts.spans_dropped, facts.usage_rows_dropped) == (0, 0)
    assert (facts.draining, facts.reloads.last_ok) == (False, None)
    assert facts.process.open_fds > 0


async def test_the_metrics_page_is_rendered_in_a_thread(room):
    """It shows the figures that the event loop's thread collected."""
    wire = Wire(room.engine).client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    assert not wire.session.ended
    page = await room.service.metrics_page(openmetrics=False)
    assert b'sluice_requests_total{api="Heartbeat",outcome="replied"} 1' in page
    assert (await room.service.metrics_page(openmetrics=True)).endswith(b"# EOF\n")


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


def test_a_drain_is_passed_to_the_application(room):
    """The service only starts it."""
    room.service.drain()
    assert room.drained


async def test_a_second_reload_at_once_is_refused(room, nursery):
    """409: the caller could not know which file was read."""
    may_load = threading.Event()
    room.reloader._load = lambda: (may_load.wait(5), config_of())[1]
    nursery.start_soon(room.service.reload)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(AdminError) as refused:
        await room.service.reload()
    assert refused.value.status == 409
    may_load.set()


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
