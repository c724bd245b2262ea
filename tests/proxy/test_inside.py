"""The proxy as telemetry and the admin server see it; what is said over HTTP of it is in admin/test_control.py."""

from __future__ import annotations

import threading

import pytest
import structlog
import trio.testing

from policies.api import InForce, Policy
from policies.chain import Chain, Entry
from proxy.admin.inside import AdminInside, Held, RefusedError
from proxy.config import Log
from proxy.core.errors import CloseReason
from proxy.telemetry import log
from proxy.telemetry.facts import FactsSource
from tests.support import frames as f
from tests.support.admin_room import AdminRoom, config_of, quota_entry, roomy
from tests.support.sessions import Wire

BOB = [{"user": "bob", "request_rate": 7}]


@pytest.fixture
def room():
    with roomy(policies=(quota_entry(),)) as made, structlog.testing.capture_logs():
        yield made


class Knows(Policy):
    """Says what holds everybody."""

    Config = dict

    def __init__(self, found: InForce | None) -> None:
        super().__init__({}, None)  # type: ignore[arg-type]
        self.found = found

    def in_force(self, user: str, client_id: str) -> InForce | None:
        return self.found


def chained(room: AdminRoom, *entries: Entry) -> None:
    room.engine.chain = Chain(list(entries), room.watcher)


def refusal(room: AdminRoom, **limits: float | None) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        room.inside.set_quotas("alice", None, limits, None)
    return refused.value


def test_it_is_what_both_who_look_in_need(room):
    """Every member that their contracts name is there."""
    for contract in (AdminInside, FactsSource):
        names = {*vars(contract), *contract.__annotations__}
        missing = {each for each in names if each[0] != "_" and not hasattr(room.inside, each)}
        assert missing == set()


# -- what is told ------------------------------------------------------------------------------------


def test_the_first_policy_that_knows_says_what_holds(room):
    """One that only observes holds nobody, and one without a word is passed over."""
    first, second = (InForce("entity", each, 5.0, "1") for each in ("user alice", "user bob"))
    chained(
        room,
        Entry("watches", Knows(InForce("entity", "nobody", 1.0, "1")), "observe"),
        Entry("silent", Knows(None)),
        Entry("first", Knows(first)),
        Entry("second", Knows(second)),
    )
    assert room.inside.limit_of("alice", "c") == Held("user alice", 5.0)
    assert room.inside.quota_rate("alice") == 5.0


def test_where_no_policy_knows_nobody_is_limited(room):
    """Which is not a limit of nothing."""
    chained(room, Entry("silent", Knows(None)))
    assert room.inside.limit_of("alice", "c") is None
    assert room.inside.quota_rate("alice") is None


@pytest.mark.parametrize(
    ("drained", "full", "bad"),
    [(False, False, set()), (True, False, {"serving"}), (False, True, {"connections"})],
)
def test_new_clients_may_come_unless_it_drains_or_is_full(room, drained, full, bad):
    """And which of them it is."""
    room.drained, room.full = drained, full
    assert {each.name for each in room.inside.readiness() if not each.ok} == bad


def test_what_is_switched_off_drops_nothing(room):
    """Neither spans nor usage rows."""
    facts = room.inside.facts()
    assert (facts.spans_dropped, facts.usage_rows_dropped) == (0, 0)
    assert (facts.draining, facts.reloads.last_ok) == (False, None)
    assert facts.process.open_fds > 0


async def test_the_metrics_page_is_rendered_in_a_thread(room):
    """What was read of the engine on the loop is on it; the loop goes on meanwhile."""
    wire = Wire(room.engine).client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    assert not wire.session.ended
    page = await room.inside.metrics_page(openmetrics=False)
    assert b'sluice_requests_total{api="Heartbeat",outcome="replied"} 1' in page
    assert (await room.inside.metrics_page(openmetrics=True)).endswith(b"# EOF\n")


# -- what is done ------------------------------------------------------------------------------------


async def test_the_revision_is_another_when_the_quotas_may_be(room):
    """After a live change and after other policies were taken over; not after a reload of the same."""
    inside = room.inside
    revs = [inside.quotas().rev]
    assert inside.set_quotas("alice", None, {"request_rate": 5}, revs[0]).rev != revs[0]
    revs.append(inside.quotas().rev)
    room.settings = config_of(policies=(quota_entry(),), log=Log(level=log.level()))
    await inside.reload()
    assert inside.quotas().rev == revs[1]
    room.settings = config_of(policies=(quota_entry(quotas=BOB),))
    assert (await inside.reload()).changed == ["policies"]
    assert inside.quotas().rev not in revs


def test_a_change_for_another_revision_is_refused(room):
    """Somebody was faster; nothing is changed."""
    before = room.inside.quotas()
    with pytest.raises(RefusedError) as refused:
        room.inside.set_quotas("alice", None, {"request_rate": 1}, "0-0")
    assert refused.value.status == 412
    assert room.inside.quotas() == before


def test_a_change_that_is_none_is_refused_in_words(room):
    """As over the Kafka protocol."""
    refused = refusal(room, request_rate=-1)
    assert refused.status == 400
    assert "request_rate" in str(refused)


def test_all_live_quotas_of_an_entity_are_taken_back_together(room):
    """Those of others stay, and so does what the file says."""
    inside = room.inside
    inside.set_quotas("bob", None, {"request_rate": 1, "producer_byte_rate": 2}, None)
    inside.set_quotas("eve", None, {"request_rate": 3}, None)
    left = inside.set_quotas("bob", None, {}, None)
    assert {(each.user, each.origin) for each in left.quotas} == {
        ("alice", "file"),
        ("eve", "override"),
    }


def test_without_a_book_there_is_nothing_to_change(room):
    """404, rather than a list of nothing."""
    chained(room, Entry("silent", Knows(None)))
    assert refusal(room, request_rate=1).status == 404


def test_a_connection_is_ended_at_once_and_for_the_operators_reason(room):
    """Its clients are told nothing else; an id that is nobody's ends nothing."""
    client, broker, session = room.link()
    assert not room.inside.close_connection(session.peer.session_id + 1)
    assert room.inside.close_connection(session.peer.session_id)
    assert session.ended
    assert client.recv(1) == b""
    for each in (client, broker):
        each.close()
    for _ in range(20):
        room.hub.step(0)
    assert [reason for reason, _ in room.watcher.closed] == [CloseReason.OPERATOR]


def test_a_drain_is_the_applications(room):
    """It is only asked for here."""
    room.inside.drain()
    assert room.drained


async def test_a_second_reload_at_once_is_a_conflict(room, nursery):
    """409: whoever asks again would not know which file was read."""
    go_on = threading.Event()
    room.reloader._load = lambda: (go_on.wait(5), config_of())[1]
    nursery.start_soon(room.inside.reload)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(RefusedError) as refused:
        await room.inside.reload()
    assert refused.value.status == 409
    go_on.set()


async def test_a_reload_is_remembered(room):
    """When it ended, how, and the hash of what holds now."""
    inside = room.inside
    before = inside.config_hash
    room.settings = config_of()
    reloaded = await inside.reload()
    assert (reloaded.ok, reloaded.changed) == (True, ["policies"])
    assert inside.config_hash != before
    assert inside.reloaded_ms >= room.reloader.tally.policies_ms > 0
    room.settings = OSError("gone")
    assert not (await inside.reload()).ok
    reloads = inside.facts().reloads
    assert (reloads.succeeded, reloads.failed, reloads.last_ok) == (1, 1, False)
