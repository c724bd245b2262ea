"""A changed configuration is taken over while requests are held and in flight, whole or not at all."""

from __future__ import annotations

import threading

import pytest
import structlog
import trio
import trio.testing

from policies.api import Policy
from policies.chain import Chain, Entry
from policies.validation import Problem, SettingsError
from proxy.config.sections import DrainSettings, LogSettings
from proxy.config.telemetry import MetricsSettings
from proxy.core.session.held_moves import MOVED_AT_ONCE
from proxy.reload import BusyError, Reloader, changes, hash_of
from proxy.telemetry import log
from tests.support import frames as f
from tests.support.admin_room import AdminRoom, config_of, quota_entry, roomy
from tests.support.sessions import Wire

SLOW = {"quotas": [{"client_id": "tests", "request_rate": 0.01}], "burst_seconds": 1}
FAST = {"quotas": [{"client_id": "tests", "request_rate": 1000}], "burst_seconds": 1}


@pytest.fixture(autouse=True)
def logged():
    before = log.level()
    with structlog.testing.capture_logs() as lines:
        yield lines
    log.set_level(before)


def held(room: AdminRoom, count: int = 2) -> list[Wire]:
    """Clients whose request waits for the quota: one before them has had it all."""
    Wire(room.engine).client(f.heartbeat(1))
    wires = [Wire(room.engine).client(f.heartbeat(1)) for _ in range(count)]
    assert all(wire.session.held is not None for wire in wires)
    return wires


def asked(wire: Wire) -> list[int]:
    """What has reached the broker, by correlation id."""
    return [int.from_bytes(each[8:12], "big") for each in f.split(wire.to_broker)]


def turn(wires: list[Wire]) -> None:
    for wire in wires:
        wire.advance(1)


# -- what is different -------------------------------------------------------------------------------


def test_changes_are_named_by_their_path():
    """A section's keys one by one; the policies as one."""
    before = config_of()
    after = config_of(
        log=LogSettings(level="debug"), drain=DrainSettings(timeout_ms=1), policies=(quota_entry(),)
    )
    assert list(changes(before, after)) == ["drain.timeout_ms", "log.level", "policies"]
    assert list(changes(before, config_of())) == []


def test_the_hash_is_of_the_settings_and_not_of_their_source():
    """Equal for equal ones."""
    assert hash_of(config_of()) == hash_of(config_of())
    assert hash_of(config_of()) != hash_of(config_of(log=LogSettings(level="debug")))


# -- whole or not at all -----------------------------------------------------------------------------


async def test_a_dynamic_setting_is_applied_live():
    """And the configuration in force is the new one."""
    with roomy() as room:
        before = room.reloader.config_hash
        room.settings = config_of(log=LogSettings(level="debug"))
        result = await room.reloader.reload()
        assert (result.ok, result.changed) == (True, ("log.level",))
        assert log.level() == "debug"
        assert room.reloader.config is room.settings
        assert room.reloader.config_hash != before
        tally = room.reloader.tally
        assert (tally.succeeded, tally.failed, tally.last_ok) == (1, 0, True)


async def test_a_change_that_needs_a_restart_is_refused_with_all_others():
    """To leave it out in silence would be a surprise at the next start."""
    with roomy() as room:
        level = log.level()
        room.settings = config_of(
            log=LogSettings(level="debug", format="json"), policies=(quota_entry(),)
        )
        result = await room.reloader.reload()
        assert not result.ok
        assert [problem.partition(":")[0] for problem in result.problems] == ["log.format"]
        assert log.level() == level
        assert room.engine.chain.entries == ()
        assert room.reloader.config is not room.settings


@pytest.mark.parametrize(
    "mistake", [SettingsError([Problem("a.b", "found 1", "2")]), OSError("gone"), ValueError("x")]
)
async def test_what_cannot_be_read_changes_nothing(mistake):
    """Whatever is wrong with it; the proxy goes on."""
    with roomy() as room:
        room.settings = mistake
        result = await room.reloader.reload()
        assert not result.ok
        assert result.problems
        assert room.reloader.tally.last_ok is False
        room.settings = config_of()
        assert (await room.reloader.reload()).ok


async def test_a_second_reload_is_refused_while_one_runs(nursery):
    """Not queued: whoever asks again would not know which file was read."""
    go_on = threading.Event()

    def load():
        go_on.wait(60)
        return config_of()

    with roomy() as room:
        reloader = Reloader(config_of(), load, room.engine, room, room.watcher, {}, room.clock)
        nursery.start_soon(reloader.reload)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(BusyError):
            await reloader.reload()
        go_on.set()
        with trio.fail_after(60):
            while reloader.tally.last_ok is None:  # noqa: ASYNC110 - it is the thread that goes on
                await trio.sleep(0.01)
        assert (await reloader.reload()).ok


async def test_a_reload_is_told_in_the_log(logged):
    """With the paths that changed, or with what is wrong."""
    with roomy() as room:
        room.settings = config_of(log=LogSettings(level="debug"))
        await room.reloader.reload()
        room.settings = config_of(
            log=LogSettings(level="debug"), metrics=MetricsSettings(max_users=1)
        )
        await room.reloader.reload()
    told = [line for line in logged if line["event"].startswith("config")]
    assert told[0]["changed"] == ["log.level"]
    assert "metrics.max_users" in told[1]["problems"][0]


# -- policies ----------------------------------------------------------------------------------------


async def test_quota_history_outlives_a_reload():
    """Who owed before owes after, with the new limit."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        wires = held(room, 1)
        room.settings = config_of(policies=(quota_entry(**{**SLOW, "max_default_buckets": 9000}),))
        assert (await room.reloader.reload()).ok
        late = Wire(room.engine).client(f.heartbeat(1))
        assert [wire.session.held is not None for wire in (*wires, late)] == [True, True]


async def test_who_is_held_by_a_quota_is_asked_again_by_its_heir():
    """A limit that is raised lets them go at once, each exactly once."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        wires = held(room)
        room.settings = config_of(policies=(quota_entry(**FAST),))
        assert (await room.reloader.reload()).ok
        for _ in range(400):
            turn(wires)
        for wire in wires:
            assert wire.session.held is None
            assert asked(wire) == [1]


async def test_who_is_held_by_a_policy_that_is_gone_goes_on():
    """Nobody is left who could wake them."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        wires = held(room)
        room.settings = config_of()
        assert (await room.reloader.reload()).ok
        turn(wires)
        for wire in wires:
            assert wire.session.held is None
            assert asked(wire) == [1]


@pytest.mark.parametrize("after", [(FAST,), ()])
async def test_a_crowd_of_held_requests_is_moved_a_part_at_a_time(after):
    """Each exactly once, in the order of arrival; a client that leaves meanwhile takes nothing with it."""
    count = 3 * MOVED_AT_ONCE
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        wires = held(room, count)
        room.settings = config_of(policies=tuple(quota_entry(**each) for each in after))
        assert (await room.reloader.reload()).ok
        room.engine.advance(room.engine.now_ms)
        assert 0 < sum(wire.session.held is None for wire in wires) <= MOVED_AT_ONCE or after
        gone = wires.pop()
        gone.session.client_lost(room.engine.now_ms)
        for _ in range(count * 12):
            room.engine.advance(room.engine.now_ms + 1)
        turn(wires)
        assert [asked(wire) for wire in wires] == [[1]] * (count - 1)
        assert asked(gone) == []


async def test_a_request_whose_wait_ends_before_its_move_is_moved_first():
    """Its policy is closed already: it is not asked any more."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        (wire,) = held(room, 1)
        room.settings = config_of()
        assert (await room.reloader.reload()).ok
        wire.session.held.force_complete(room.engine.now_ms)
        turn([wire])
        assert asked(wire) == [1]


async def test_no_connection_is_dropped():
    """What is in flight is answered as if nothing had happened."""
    with roomy(policies=(quota_entry(),)) as room:
        wire = Wire(room.engine).client(f.heartbeat(1))
        room.settings = config_of()
        assert (await room.reloader.reload()).ok
        wire.client(f.heartbeat(2)).broker(f.heartbeat_reply(1) + f.heartbeat_reply(2))
        assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)
        assert not wire.session.ended


class Heir(Policy):
    """Remembers whom it adopted and that it was closed."""

    Config = dict

    def __init__(self, *, raises: bool = False) -> None:
        super().__init__({}, None)  # type: ignore[arg-type]
        self.raises = raises
        self.adopted: list[Policy] = []
        self.closed = 0

    def adopt(self, previous: Policy) -> None:
        self.adopted.append(previous)
        if self.raises:
            raise RuntimeError("bug")

    def close(self) -> None:
        self.closed += 1


class Stranger(Heir):
    """Another kind of policy."""


def adopting(room: AdminRoom, before: dict[str, Policy], after: dict[str, Policy]) -> None:
    """Swap these, as a reload does that has built them."""
    room.engine.chain = Chain([Entry(*each) for each in before.items()], room.watcher)
    room.reloader._adopt([Entry(*each) for each in after.items()])


def test_namesakes_of_the_same_kind_inherit_and_the_others_are_closed():
    """Whose books live on is not closed: they are shared."""
    same, heir, gone, other, stranger = Heir(), Heir(), Heir(), Heir(), Stranger()
    with roomy() as room:
        adopting(room, {"a": same, "b": gone, "c": other}, {"a": heir, "c": stranger, "d": Heir()})
    assert heir.adopted == [same]
    assert stranger.adopted == []
    assert (same.closed, gone.closed, other.closed) == (0, 1, 1)
    assert (heir.closed, stranger.closed) == (0, 0)


def test_a_policy_that_raises_when_it_inherits_begins_anew():
    """It is reported; the reload goes on."""
    with roomy() as room:
        adopting(room, {"a": Heir(), "b": Heir()}, {"a": Heir(raises=True), "b": Heir()})
        assert room.watcher.policy_errors == [("a", "adopt")]
        assert [entry.name for entry in room.engine.chain.entries] == ["a", "b"]
