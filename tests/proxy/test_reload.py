"""A changed configuration is applied whole or not at all, while requests are held and in flight."""

import threading
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from policies import registry
from policies.api import Policy
from policies.chain import Chain, Entry, PolicyFault
from policies.credential_guard import NAME, with_guard
from policies.registry import PolicyEntry
from policies.validation import Problem, SettingsError
from proxy.config import Config
from proxy.config.sections import LogSettings
from proxy.config.security import UpstreamSasl, UpstreamTls
from proxy.config.telemetry import MetricsSettings
from proxy.config.upstream import UpstreamSettings
from proxy.core.session.held_moves import MOVED_AT_ONCE
from proxy.policy_host.services import PolicyServices
from proxy.reload import Reloader, ReloadRunningError
from proxy.telemetry import log
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.plugins.tool_user import ToolUser
from tests.support.processes.admin_room import AdminRoom, config_of, quota_entry, roomy
from wire.apis import ApiKey

SLOW = {"quotas": [{"client_id": "tests", "request_rate": 0.01}], "burst_seconds": 1}
FAST = {"quotas": [{"client_id": "tests", "request_rate": 1000}], "burst_seconds": 1}


@pytest.fixture(autouse=True)
def logged():
    before = log.level()
    with structlog.testing.capture_logs() as lines:
        yield lines
    log.set_level(before)


def held(room: AdminRoom, count: int = 2) -> list[Wire]:
    """Return clients whose request waits for the quota; another client has used it up."""
    Wire(room.engine).client(f.heartbeat(1))
    wires = [Wire(room.engine).client(f.heartbeat(1)) for _ in range(count)]
    assert all(wire.session.held is not None for wire in wires)
    return wires


def asked(wire: Wire) -> list[int]:
    """Return the correlation ids of the requests that reached the broker."""
    return [int.from_bytes(each[8:12], "big") for each in f.split(wire.to_broker)]


def turn(wires: list[Wire]) -> None:
    for wire in wires:
        wire.advance(1)


# -- whole or not at all -----------------------------------------------------------------------------


async def test_a_dynamic_setting_is_applied_live():
    """The new configuration is then the one in force."""
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
    """A change that is silently left out would surprise at the next start."""
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
async def test_an_invalid_configuration_changes_nothing(mistake):
    """This holds for every kind of error; the proxy keeps running."""
    with roomy() as room:
        room.settings = mistake
        result = await room.reloader.reload()
        assert not result.ok
        assert result.problems
        assert room.reloader.tally.last_ok is False
        room.settings = config_of()
        assert (await room.reloader.reload()).ok


async def test_a_second_reload_is_refused_while_one_runs(nursery):
    """It is not queued, because its caller could not know which file was read."""
    may_load = threading.Event()

    def load():
        may_load.wait(60)
        return config_of()

    with roomy() as room:
        reloader = Reloader(config_of(), load, room.engine, room, room.watcher, {}, room.clock)
        nursery.start_soon(reloader.reload)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ReloadRunningError):
            await reloader.reload()
        may_load.set()
        with trio.fail_after(60):
            while reloader.tally.last_ok is None:  # noqa: ASYNC110 - the reload runs in a thread
                await trio.sleep(0.01)
        assert (await reloader.reload()).ok


async def test_a_reload_is_logged(logged):
    """The line has the changed paths, or the errors."""
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


async def test_quota_usage_survives_a_reload():
    """A client that was over its quota stays over it, under the new limit."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        wires = held(room, 1)
        room.settings = config_of(policies=(quota_entry(**{**SLOW, "max_default_buckets": 9000}),))
        assert (await room.reloader.reload()).ok
        late = Wire(room.engine).client(f.heartbeat(1))
        assert [wire.session.held is not None for wire in (*wires, late)] == [True, True]


@pytest.mark.parametrize(("after", "turns"), [((FAST,), 400), ((), 1)])
async def test_requests_held_by_a_quota_that_changes_or_goes_are_forwarded_once(after, turns):
    """A higher limit judges them again; without the policy, none is left that could wake them."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        wires = held(room)
        room.settings = config_of(policies=tuple(quota_entry(**each) for each in after))
        assert (await room.reloader.reload()).ok
        for _ in range(turns):
            turn(wires)
        for wire in wires:
            assert wire.session.held is None
            assert asked(wire) == [1]


@pytest.mark.parametrize("after", [(FAST,), ()])
async def test_many_held_requests_are_moved_in_parts(after):
    """Each is forwarded once, in order of arrival; a client may leave meanwhile."""
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


async def test_a_request_whose_hold_ends_before_it_is_moved_is_forwarded():
    """Its policy is already closed and is not asked again."""
    with roomy(policies=(quota_entry(**SLOW),)) as room:
        (wire,) = held(room, 1)
        room.settings = config_of()
        assert (await room.reloader.reload()).ok
        wire.session.held.force_complete(room.engine.now_ms)
        turn([wire])
        assert asked(wire) == [1]


async def test_a_reload_drops_no_connection():
    """Requests in flight are answered, and new ones are forwarded."""
    with roomy(policies=(quota_entry(),)) as room:
        wire = Wire(room.engine).client(f.heartbeat(1))
        room.settings = config_of()
        assert (await room.reloader.reload()).ok
        wire.client(f.heartbeat(2)).broker(f.heartbeat_reply(1) + f.heartbeat_reply(2))
        assert wire.to_client == f.heartbeat_reply(1) + f.heartbeat_reply(2)
        assert not wire.session.ended


class Heir(Policy):
    """Remembers the policies that it adopted, and that it was closed."""

    Config = dict

    def __init__(self, config: dict[str, object], host: object) -> None:
        super().__init__(config, host)  # type: ignore[arg-type]
        self.raises = "raises" in config
        self.adopted: list[Policy] = []
        self.closed = 0

    def adopt(self, previous: Policy) -> None:
        self.adopted.append(previous)
        if self.raises:
            raise RuntimeError("bug")

    def close(self) -> None:
        self.closed += 1


class Stranger(Heir):
    """A policy of another class."""


def heirs(**classes: type) -> tuple[PolicyEntry, ...]:
    """Return an entry of each class by its name."""
    return tuple(
        PolicyEntry(use=f"{__name__}:{each.__name__}", name=name) for name, each in classes.items()
    )


async def test_an_entry_adopts_the_policy_of_its_name_and_class():
    """An adopted policy is not closed, because its state is shared; all others are closed."""
    with roomy(policies=heirs(a=Heir, b=Heir, c=Heir)) as room:
        same, gone, other = (each.policy for each in room.engine.chain.entries)
        room.settings = config_of(policies=heirs(a=Heir, c=Stranger, d=Heir))
        assert (await room.reloader.reload()).ok
        heir, stranger, _ = (each.policy for each in room.engine.chain.entries)
        assert heir.adopted == [same]
        assert stranger.adopted == []
        assert (same.closed, gone.closed, other.closed) == (0, 1, 1)
        assert (heir.closed, stranger.closed) == (0, 0)


async def test_a_policy_that_raises_in_adopt_starts_without_the_old_state():
    """The exception is reported, and the reload continues."""
    raising = PolicyEntry(use=f"{__name__}:Heir", name="a", config={"raises": True})
    with roomy(policies=heirs(a=Heir, b=Heir)) as room:
        room.settings = config_of(policies=(raising, *heirs(b=Heir)))
        assert (await room.reloader.reload()).ok
        assert room.watcher.policy_errors == [("a", "adopt")]
        assert [entry.name for entry in room.engine.chain.entries] == ["a", "b"]


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


SERVERS = ("kafka:9092",)
SASL = UpstreamSasl(mechanism="PLAIN", username="u", forward_credential_apis=("DescribeAcls",))


@pytest.mark.parametrize(
    ("upstream", "names"),
    [
        (UpstreamSettings(bootstrap_servers=SERVERS), []),
        (UpstreamSettings(bootstrap_servers=SERVERS, tls=UpstreamTls()), []),
        (
            UpstreamSettings(
                bootstrap_servers=SERVERS, tls=UpstreamTls(cert_file="c", key_file="k")
            ),
            [NAME],
        ),
        (UpstreamSettings(bootstrap_servers=SERVERS, sasl=SASL), [NAME]),
    ],
)
def test_a_login_or_a_certificate_of_sluice_has_a_guard(
    upstream: UpstreamSettings, names: list[str]
) -> None:
    """Without them the brokers judge each client by its own."""
    assert [each.name for each in with_guard([], upstream.forwarded_credential_apis())] == names


async def test_a_reload_of_the_policies_keeps_the_guard_and_what_is_hidden() -> None:
    """It stays last. With a quota its two APIs are offered; without one they are not."""
    upstream = UpstreamSettings(bootstrap_servers=SERVERS, sasl=SASL)
    quotas = {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}

    def settings(*policies: PolicyEntry) -> Config:
        return config_of(policies=policies, upstream=upstream)

    with roomy(upstream=upstream) as room:
        for policies in ((quota_entry(),), (), (PolicyEntry(use="limits"), quota_entry())):
            room.settings = settings(*policies)
            assert (await room.reloader.reload()).ok
            names = [entry.name for entry in room.engine.chain.entries]
            assert names == [*(each.name for each in policies), NAME]
            hidden = room.engine.rewrites.hidden
            assert {ApiKey.CREATE_ACLS, ApiKey.CREATE_DELEGATION_TOKEN} <= hidden
            assert ApiKey.DESCRIBE_ACLS not in hidden
            assert (quotas <= hidden) is (not policies)
