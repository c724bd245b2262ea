"""Caps of policies on versions: ApiVersions offers no later one, and a client that sends one is disconnected."""

import struct

import pytest

from policies.api import Policy
from policies.chain import Chain, Entry
from policies.testing import BenchHost, BenchReporter
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire import apis
from wire.apis import OFFERED, ApiKey

HEARTBEAT_CAP = {ApiKey.HEARTBEAT: 2}


def capping(caps: dict[int, int]) -> Policy:
    """A policy that has these caps and no hooks."""
    policy = Policy({}, BenchHost())
    policy.max_versions = caps
    return policy


def offered_to_clients(engine: Engine) -> dict[int, tuple[int, int]]:
    """Return the ranges in an ApiVersions reply, of a broker that has all versions of two APIs."""
    api = apis.known(ApiKey.API_VERSIONS, 0)
    assert api is not None
    ranges = ((ApiKey.PRODUCE, 0, 99), (ApiKey.HEARTBEAT, 0, 99))
    answer = struct.pack(">hi", 0, 2) + b"".join(struct.pack(">hhh", *each) for each in ranges)
    narrow = engine.rewrites.rewrite_for(api)
    assert narrow is not None
    body = narrow(bytearray(answer), 0, len(answer))
    assert body is not None
    found = (struct.unpack_from(">hhh", body, 6 + 6 * place) for place in range(2))
    return {key: (lowest, highest) for key, lowest, highest in found}


def test_a_cap_lowers_the_range_that_clients_see():
    """Other APIs keep theirs; of several caps the lowest counts."""
    engine = make_engine([capping(HEARTBEAT_CAP), capping({ApiKey.HEARTBEAT: 3})])

    assert offered_to_clients(engine) == {
        ApiKey.HEARTBEAT: (0, 2),
        ApiKey.PRODUCE: (0, OFFERED[ApiKey.PRODUCE][1]),
    }


@pytest.mark.parametrize("chunk", [1, 6, 9, 14, 1 << 10])
def test_a_later_version_than_the_cap_ends_the_connection(chunk: int):
    """No byte of it reaches the broker, and requests before it do, wherever a read ends."""
    wire = Wire(make_engine([capping(HEARTBEAT_CAP)]), node_id=1)
    allowed = f.beat(1, version=2)
    wire.client(allowed + f.beat(2, version=3), chunk)

    assert wire.to_broker == allowed
    wire.broker(f.beat_reply(1, version=2))
    assert wire.to_client == f.beat_reply(1, version=2)
    wire.release()
    words = "Heartbeat v3 is not offered: a policy allows at most v2"
    assert wire.watcher.closed == [(CloseReason.CLIENT_PROTOCOL, words)]


def test_an_entry_that_observes_caps_nothing():
    """Its interests are read, and nothing that clients see changes."""
    chain = Chain([Entry("watching", capping(HEARTBEAT_CAP), mode="observe")], BenchReporter())

    assert chain.offered() == OFFERED


def test_a_reload_undoes_a_cap():
    """A chain without the policy offers and accepts all versions again, on connections that are open, too."""
    engine = make_engine([capping(HEARTBEAT_CAP)])
    wire = Wire(engine, node_id=1)
    wire.client(f.beat(1, version=2))
    engine.adopt_chain(Chain([], BenchReporter()))
    later = f.beat(2, version=3)
    wire.client(later)

    assert offered_to_clients(engine)[ApiKey.HEARTBEAT] == (0, OFFERED[ApiKey.HEARTBEAT][1])
    assert wire.to_broker.endswith(later)
