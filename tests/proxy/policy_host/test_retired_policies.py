"""A reload leaves nothing behind: objects are counted by type, and no verdict waits for the garbage collector."""

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from policies.api import Policy
from policies.chain import Entry
from policies.hooks import Lease
from proxy.core.purgatory.timers import Timers
from proxy.policy_host.retired_policies import CHECK_MS, RetiredPolicies
from tests.support.core.reloads import Reloads, counted, grown, without_collector
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f

ROUND = 21
"""Reloads until the same entries serve again."""
ROUNDS = 10


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep no log lines."""
    with structlog.testing.capture_logs(processors=[_drop]):
        yield


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent


def settings(n: int, folder: Path) -> dict[str, object]:
    """Every kind of setting that a reload applies: each differs from reload to reload."""
    (folder / "pauses.yaml").write_text(f"pauses: [{{user: user-{n % 7}}}]")
    limits = {"quotas": [{"user": "alice", "request_rate": 100 + n, "producer_byte_rate": 1e6}]}
    rule = {"who": ["alice"], "topics": {f"orders-{n}": ["read"]}}
    others: list[tuple[str, str, dict[str, object]]] = [
        ("quota", "kafka", {"enforcement": "channel", **limits}),
        ("admission", "admission", {"max_in_flight_requests_per_node": 100 + n}),
        ("fetch_floor", f"floor {n}", {}),  # another entry each time
        ("access", "access", {"rules": [rule]}),
        ("maintenance", "maintenance", {"file": str(folder / "pauses.yaml"), "hold_ms": 1 + n}),
        ("records", "records", {}),
        ("limits", "limits", {}),
        ("audit", "audit", {}),
    ]
    # Two stay for three reloads, the second of which only changes their settings.
    place = n // 3 % (len(others) - 1)
    named = [("quota", "smooth", limits), *others[place : place + 2]]
    return {
        "upstream": {"bootstrap_servers": ["kafka:9092"]},
        "listen": {"nodes": "0-3"},
        "audit": {"file": str(folder / "audit.log")},
        "log": {"level": "info" if n % 2 else "warning"},
        "policies": [
            {"use": use, "name": name, "config": config, "mode": "observe" if n % 3 else "enforce"}
            for use, name, config in named
        ],
    }


async def test_hundreds_of_reloads_leave_no_object_behind(tmp_path):
    """Entries that stay, go and come back; every built-in policy; refused configurations in between."""
    reloads = Reloads(tmp_path, settings)
    with without_collector():
        await reloads.make(ROUND)
        await reloads.refuse()
        counted()  # it keeps objects of its own
        before = counted()
        for _ in range(ROUNDS):
            await reloads.make(ROUND)
            await reloads.refuse()
        assert grown(before) == {}
    reloads.room.close()


PLUGIN = """
import msgspec
from policies.api import Policy

class Config(msgspec.Struct, frozen=True):
    level: int = 0
    words: tuple[str, ...] = ()

class Cyclic(Policy):
    Config = Config

    def __init__(self, config, host):
        super().__init__(config, host)
        self.again = self.ring
        self.count = host.counter("rings", "How often it rang.")
        host.call_at(0, self.ring)

    def ring(self, now_ms):
        self.count.add(1)
        self.host.call_at(now_ms + 3_600_000, self.again)
"""


def with_plugin(n: int, folder: Path) -> dict[str, object]:
    """A policy of a file that is another module at every second reload."""
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins" / "cyclic.py").write_text(f"{PLUGIN}\nMARK = {n // 2}\n")
    config = {"level": n, "words": [str(n)]}
    return {
        "upstream": {"bootstrap_servers": ["kafka:9092"]},
        "listen": {"nodes": "0-3"},
        "policies_path": [str(folder / "plugins")],
        "policies": [{"use": "cyclic", "config": config}],
    }


def of_plugin() -> Counter[str]:
    """Return the number of objects whose class is the plug-in's, and of its classes."""
    return Counter(
        each.__name__ if isinstance(each, type) else type(each).__name__
        for each in gc.get_objects()
        if str((each if isinstance(each, type) else type(each)).__module__).endswith(".cyclic")
    )


async def test_a_plugin_with_cycles_alarms_and_changing_code_leaves_nothing_behind(tmp_path):
    """Its alarm is an hour away, it refers to itself, and its module is replaced: the proxy collects it itself."""
    reloads = Reloads(tmp_path, with_plugin)
    reloads.pass_ms(1)
    with without_collector():
        await reloads.make(ROUND)
        counted()
        before, timers = counted(), reloads.room.engine.timers.size
        await reloads.make(4 * ROUND)
        assert of_plugin() == {"Cyclic": 2, "Config": 2}, "one policy, its settings, their classes"
        assert reloads.room.engine.timers.size == timers
        assert grown(before) == {}
    reloads.room.close()


# -- what replaced policies still need -----------------------------------------------------------------


class _Host:
    """The tools of an entry: whether its alarms were given up."""

    def __init__(self) -> None:
        self.gave_up = False

    def give_up_alarms(self) -> None:
        self.gave_up = True


def retired(policy: Policy) -> tuple[Timers, list[str], _Host, Lease]:
    """Return timers, the collections that were made, the tools and the lease of a policy that was replaced at 0."""
    timers, made, host, lease = Timers(), [], _Host(), Lease()
    watched = RetiredPolicies(timers, lambda: made.append("collected"))
    watched.add([Entry("old", policy, tools=host)], lease, 0)
    return timers, made, host, lease


def test_alarms_are_given_up_when_the_last_request_has_ended():
    """A request in flight has the lease; until it ends, the policy may need its alarms."""
    policy = Policy(None, None)
    timers, made, host, lease = retired(policy)
    timers.advance(5 * CHECK_MS)
    assert (host.gave_up, timers.size) == (False, 1)
    del lease
    timers.advance(6 * CHECK_MS)
    assert (host.gave_up, timers.size) == (True, 0)
    assert made == ["collected"], "the test itself keeps the policy"


def test_nothing_is_collected_if_nothing_is_left():
    """A collection looks at all connections, so it is made only for a policy that is still there."""
    timers, made, host, lease = retired(Policy(None, None))
    del lease
    timers.advance(CHECK_MS)
    assert (host.gave_up, made) == (True, [])


async def test_a_request_in_flight_keeps_the_lease_of_its_chain(tmp_path):
    """Its reply is judged by the policies that admitted it."""
    reloads = Reloads(tmp_path, settings)
    wire = Wire(reloads.room.engine)
    wire.client(f.heartbeat(1))
    watched = reloads.reloader._retired
    await reloads.make(3)
    assert len(watched._waiting) == 1
    wire.broker(f.heartbeat_reply(1))
    reloads.pass_ms(CHECK_MS)
    assert watched._waiting == []
    wire.release()
    reloads.room.close()
