"""Connections by address and user, and their rates: compared with a model that remembers every connection."""

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policies.api import Peer
from proxy.core.connection_limits import (
    MAX_RATED,
    ConnectionCounts,
    ConnectionLimits,
    address_of,
)
from proxy.core.errors import CloseReason
from tests.support.core.sessions import Watcher, make_engine


def limited(**limits: int) -> ConnectionCounts:
    counts = ConnectionCounts()
    counts.limits = ConnectionLimits(**limits)
    return counts


def peer(host: str = "10.0.0.1", user: str = "ANONYMOUS", source: str = "none") -> Peer:
    return Peer(1, host, 40000, user=user, principal_source=source)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::/64"),
        (":no address", ":no address"),
    ],
)
def test_an_ipv6_host_counts_as_its_network(host, address):
    """One host may use all addresses of a /64; IPv4 clients of a listener on :: stay apart."""
    assert address_of(host) == address


def test_without_limits_nothing_is_refused_and_no_rate_is_kept():
    """The defaults change nothing for a sidecar, whose clients have one address."""
    counts = ConnectionCounts()
    for _ in range(1000):
        assert counts.try_accept(0)
        assert counts.maybe_refuse("127.0.0.1", 0) is None
        assert counts.join(peer("127.0.0.1", "app", "sasl")) is None
    assert counts.of_address("127.0.0.1") == counts.of_user("app") == 1000


@pytest.mark.parametrize("source", ["none", "fixed", "unknown"])
def test_users_that_are_not_authenticated_by_name_have_no_limit(source):
    """ANONYMOUS, UNKNOWN and a fixed name stand for many clients."""
    counts = limited(max_per_user=1)
    assert all(counts.join(peer(user="any", source=source)) is None for _ in range(5))
    assert counts.of_user("any") == 0


def test_a_refused_change_of_user_changes_no_count():
    """The connection stays counted for its address and the user that it had."""
    counts = limited(max_per_user=1)
    before, after = peer(user="cn", source="tls"), peer(user="alice", source="sasl")
    assert counts.join(after) is None
    assert counts.join(before) is None
    refusal = counts.change_user(before, after)
    assert refusal is not None
    assert refusal.reason is CloseReason.MAX_CONNECTIONS_PER_USER
    assert refusal.detail == "'alice' has 1 connections, the limit is 1"
    assert (counts.of_user("cn"), counts.of_user("alice")) == (1, 1)
    counts.leave(after)
    assert counts.change_user(before, after) is None
    assert (counts.of_user("cn"), counts.of_user("alice")) == (0, 1)


@pytest.mark.parametrize("rate", [1, 3, 7, 1000, 2**31 - 1])
def test_a_rate_lets_a_seconds_worth_through_and_then_so_many_per_second(rate):
    """Over ten seconds with far more attempts: the burst, and `rate` in each second."""
    counts = limited(max_rate=rate)
    tries = min(rate, 1000) * 2
    at_once = sum(counts.try_accept(1_000_000) for _ in range(tries))
    assert at_once == min(rate, tries)
    if rate <= 1000:
        later = sum(counts.try_accept(1_000_000 + ms) for ms in range(1, 10_001) for _ in "ab")
        assert later in {10 * rate - 1, 10 * rate}


def test_many_addresses_cost_no_memory():
    """Rates are kept for the addresses that came last; counts only for those that are connected."""
    counts = limited(max_rate_per_ip=1, max_per_ip=5)
    for n in range(3 * MAX_RATED):
        host = f"2001:db8:{n >> 16:x}:{n & 0xFFFF:x}::1"
        assert counts.maybe_refuse(host, 0) is None
        counts.join(peer(host))
        counts.leave(peer(host))
    assert counts.maybe_refuse(host, 0) is not None
    assert counts.of_address(host) == 0
    forgotten = "2001:db8:0:1::1"
    assert counts.maybe_refuse(forgotten, 0) is None


def test_the_engine_counts_a_session_until_it_is_released():
    """A refused connection is reported with its reason, and leaves no count."""
    engine = make_engine()
    engine.limit_connections(ConnectionLimits(max_per_ip=1))
    assert engine.admits("10.0.0.9", 1, None, 0)
    session = engine.connect("10.0.0.9", 1, None)
    assert session is not None
    assert not engine.admits("10.0.0.9", 2, None, 0)
    assert isinstance(engine.observer, Watcher)
    ((reason, detail),) = engine.observer.closed
    assert (reason, detail) == (
        CloseReason.MAX_CONNECTIONS_PER_IP,
        "10.0.0.9 has 1 connections, the limit is 1",
    )
    session.release(0)
    assert engine.connections.of_address("10.0.0.9") == 0
    assert len(engine.newcomers) == 0
    assert engine.admits("10.0.0.9", 3, None, 0)


HOSTS = ("10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2")
PRINCIPALS = (("ANONYMOUS", "none"), ("alice", "sasl"), ("bob", "sasl"), ("alice", "tls"))


class Model(RuleBasedStateMachine):
    """Connections come, change users and go, while the limits change; the model keeps lists of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = ConnectionCounts()
        self.open: list[Peer] = []
        self.passed: dict[str, list[int]] = {}  # when connections passed, by address
        self.now_ms = 1000

    @rule(per_ip=st.integers(0, 3), per_user=st.integers(0, 3))
    def change_limits(self, per_ip: int, per_user: int) -> None:
        self.counts.limits = ConnectionLimits(
            max_per_ip=per_ip, max_per_user=per_user, max_rate_per_ip=4
        )

    @rule(elapsed_ms=st.integers(0, 1500))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    @rule(host=st.sampled_from(HOSTS), who=st.sampled_from(PRINCIPALS))
    def connect(self, host: str, who: tuple[str, str]) -> None:
        limits, address = self.counts.limits, address_of(host)
        connected = sum(address_of(each.host) == address for each in self.open)
        refusal = self.counts.maybe_refuse(host, self.now_ms)
        if limits.max_per_ip and connected >= limits.max_per_ip:
            assert refusal is not None
            assert refusal.reason is CloseReason.MAX_CONNECTIONS_PER_IP
            return
        times = self.passed.setdefault(address, [])
        if limits.max_rate_per_ip:
            assert (refusal is None) == self._has_token(times)
        if refusal is not None:
            return
        if limits.max_rate_per_ip:
            times.append(self.now_ms)
        newcomer = peer(host, *who)
        if self._may_be(newcomer):
            assert self.counts.join(newcomer) is None
            self.open.append(newcomer)
        else:
            assert self.counts.join(newcomer) is not None

    def _has_token(self, times: list[int]) -> bool:
        """Four tokens, of which one comes back in each 250 ms."""
        tokens, then_ms = 4.0, 0
        for at_ms in times:
            tokens = min(4.0, tokens + (at_ms - then_ms) / 250) - 1
            then_ms = at_ms
        return min(4.0, tokens + (self.now_ms - then_ms) / 250) >= 1

    def _may_be(self, newcomer: Peer) -> bool:
        most = self.counts.limits.max_per_user
        named = Counter(each.user for each in self.open if each.principal_source != "none")
        return not most or newcomer.principal_source == "none" or named[newcomer.user] < most

    @precondition(lambda self: self.open)
    @rule(data=st.data(), who=st.sampled_from(PRINCIPALS[1:]))
    def authenticate(self, data: st.DataObject, who: tuple[str, str]) -> None:
        at = data.draw(st.integers(0, len(self.open) - 1))
        before = self.open[at]
        after = peer(before.host, *who)
        allowed = self._may_be(after)
        assert (self.counts.change_user(before, after) is None) == allowed
        if allowed:
            self.open[at] = after

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        self.counts.leave(self.open.pop(data.draw(st.integers(0, len(self.open) - 1))))

    @invariant()
    def the_counts_are_those_of_the_model(self) -> None:
        by_address = Counter(address_of(each.host) for each in self.open)
        by_user = Counter(each.user for each in self.open if each.principal_source != "none")
        for host in HOSTS:
            address = address_of(host)
            assert self.counts.of_address(address) == by_address[address]
        for user, _ in PRINCIPALS:
            assert self.counts.of_user(user) == by_user[user]


TestModel = Model.TestCase
