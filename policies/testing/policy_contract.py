"""Tests that every policy must pass. A test class derives from `PolicyContract` and names the policy and its settings:

    class TestClientIds(PolicyContract):
        policy = ClientIds
        config = {"prefixes": ["billing-"]}

pytest then runs the inherited tests with the requests of every API that the policy declares.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Final

from policies.api import EXEMPT, FORWARD, Forward, Hold, Outcome, Peer, Policy
from policies.interests import interests_of
from policies.reply_verdicts import check_response
from policies.testing.policy_bench import PolicyBench
from policies.testing.watched_calls import WatchedCalls, reachable_objects
from policies.validation import SettingsError
from policies.verdicts import check_request
from wire.apis import OFFERED, ApiKey, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from policies.testing.bench_request import BenchRequest

_CLIENTS: Final = ("", "bench", "a" * 32_767, "\0\x1b[31m", "🦦" * 100, "../../etc/passwd")
_TOPICS: Final = ("orders", "", "a" * 249, "../x", "\0", "ü", "__consumer_offsets")
_BODIES: Final = (b"", b"\xff" * 64, b"\x00" * 64, b"\x7f\xff\xff\xff" * 16)
_CROWD: Final = 500
_MOMENT_MS: Final = 1_000
_LATER_MS: Final = 7_200_000


class PolicyContract:
    """The rules that a policy keeps."""

    policy: ClassVar[type[Policy]]
    config: ClassVar[Mapping[str, object]] = {}
    """Settings that the policy accepts."""
    files: ClassVar[Mapping[str, bytes]] = {}
    """The content of the files that it reads."""
    max_objects_per_client: ClassVar[float] = 1.0
    """How many objects it may still hold two hours after a client has left, in the mean."""

    def bench(self) -> PolicyBench:
        """Return a new bench with the policy."""
        return PolicyBench(self.policy, self.config, files=self.files)

    def test_unknown_settings_are_refused(self) -> None:
        """A mistyped setting never means that a rule is silently missing."""
        self.bench()  # its own settings are accepted
        config = {**self.config, "no_such_setting": 1}
        try:
            PolicyBench(self.policy, config, files=self.files)
        except SettingsError:
            return
        self._require(holds=False, words="the setting no_such_setting is accepted")

    def test_its_interests_are_valid(self) -> None:
        """`apis`, `needs`, `max_versions` and `tick_ms` have the types and ranges of the contract."""
        interests_of(self.bench().policy)

    def test_it_judges_every_request_that_it_declares(self) -> None:
        """Every API and version that it asks for gets a verdict, a reply and an end, and no hook raises."""
        bench = self.bench()
        for request in _requests(bench):
            self._live(bench, request, bench.peer)
        self._no_errors(bench)

    def test_hooks_use_no_clock_no_thread_and_no_file(self) -> None:
        """Time is an argument, and hooks do no I/O: all clients would wait for it."""
        bench = self.bench()
        requests = list(_requests(bench))
        caught: list[str] = []
        with WatchedCalls(caught):
            for request in requests:
                self._live(bench, request, bench.peer)
            bench.policy.on_tick(bench.now_ms)
        self._require(not caught, f"hooks call {', '.join(sorted(set(caught)))}")

    def test_it_survives_hostile_requests(self) -> None:
        """Names of any length and form, and bodies that are no message, end in a verdict, not in an exception."""
        bench = self.bench()
        for place, client_id in enumerate(_CLIENTS):
            peer = Peer(2 + place, "127.0.0.1", 50_000, client_id=client_id, user=client_id or "u")
            for request in _requests(bench, newest=True):
                self._live(bench, request, peer)
        for key in _asked(bench):
            newest = bench.chain.offered()[key][1]
            for body in _BODIES:
                self._live(bench, bench.request(name_of(key), newest, body=body), bench.peer)
            for size_bytes in (0, 2_147_483_647):
                hostile = bench.request(name_of(key), newest, size_bytes=size_bytes)
                self._live(bench, hostile, bench.peer)
        self._no_errors(bench)

    def test_it_survives_hostile_replies(self) -> None:
        """A body that is no message, and a reply too large to be kept, are passed or replaced, without an exception."""
        bench = self.bench()
        for request in _requests(bench, newest=True):
            if bench.chain.hooks(request.api_key).hears_body:
                for body in (*_BODIES, None):
                    size_bytes = 2_147_483_647 if body is None else None
                    again = _request(bench, request.api.name, request.api_version, request.acks)
                    self._live(bench, again, bench.peer, body, size_bytes)
        self._no_errors(bench)

    def test_every_end_of_a_request_is_accepted(self) -> None:
        """`on_complete` is called once per request, with any outcome, also without a reply before it."""
        bench = self.bench()
        for request, outcome in product(_requests(bench, newest=True), Outcome):
            copy = bench.request(request.api.name, request.api_version, acks=request.acks)
            verdict = bench.ask(copy)
            if not isinstance(verdict, Hold):
                bench.complete(copy, outcome)
        bench.disconnect(bench.peer)
        bench.advance(_LATER_MS)
        self._no_errors(bench)

    def test_a_reload_keeps_it_working(self) -> None:
        """The new policy adopts the old one's state with requests in flight and held, and judges the next ones."""
        bench = self.bench()
        open_requests = list(_requests(bench, newest=True))
        for request in open_requests:
            bench.ask(request)
        before = bench.policy
        self._require(bench.reload() is not before, "a reload made no new policy")
        for request in open_requests:
            if request.held is None:
                bench.reply(request)
        for request in _requests(bench, newest=True):
            self._live(bench, request, bench.peer)
        bench.drain()
        bench.advance(_LATER_MS)
        self._no_errors(bench)

    def test_it_closes_twice(self) -> None:
        """`close` may follow a failed start; a second call does nothing."""
        policy = self.bench().policy
        policy.close()
        policy.close()

    def test_clients_leave_nothing_lasting(self) -> None:
        """Clients choose their ids: two hours after they have left, the policy holds no state for each of them."""
        bench = self.bench()
        self._crowd(bench, 0)
        before = reachable_objects(bench.policy)
        self._crowd(bench, _CROWD)
        grown = reachable_objects(bench.policy) - before
        most = self.max_objects_per_client * _CROWD
        self._require(
            grown <= most,
            f"{grown} more objects are held after {_CROWD} clients have left, expected {most:.0f} at most",
        )

    def _crowd(self, bench: PolicyBench, first: int) -> None:
        for number in range(first, first + _CROWD):
            peer = Peer(10 + number, "127.0.0.1", 50_000, client_id=f"crowd-{number}")
            if bench.chain.on_connect(peer, bench.now_ms) is not None:
                continue
            for key in sorted(_asked(bench))[:3]:
                request = bench.request(name_of(key))
                if not isinstance(bench.ask(request, peer), Hold):
                    bench.reply(request, peer=peer)
            bench.disconnect(peer)
        bench.released.clear()
        bench.advance(_LATER_MS)
        bench.host.woken.clear()

    def _live(
        self,
        bench: PolicyBench,
        request: BenchRequest,
        peer: Peer,
        body: bytes | None = None,
        size_bytes: int | None = None,
    ) -> None:
        """Lead a request through its life, with this reply, and check every verdict."""
        what = f"{request.api.name} v{request.api_version}"
        if not bench.reads(request):
            return
        verdict = bench.ask(request, peer)
        self._check(what, verdict, check_request, EXEMPT if verdict is EXEMPT else FORWARD)
        if isinstance(verdict, Hold):
            bench.advance(min(verdict.max_delay_ms, _MOMENT_MS))
            bench.drain()
        reply = bench.reply(request, size_bytes, body=body, peer=peer)
        self._check(what, reply, check_response, FORWARD)

    def _check(
        self, what: str, verdict: object, check: Callable[[Any], None], usual: Forward
    ) -> None:
        if verdict is usual:
            return
        try:
            check(verdict)
        except TypeError as error:
            raise AssertionError(f"{self.policy.__name__}, {what}: {error}") from error

    def _no_errors(self, bench: PolicyBench) -> None:
        found = [f"{hook}: {error!r}" for _, hook, error in bench.reporter.errors]
        self._require(not found, f"hooks raise: {'; '.join(found)}")

    def _require(self, holds: object, words: str) -> None:
        if not holds:
            raise AssertionError(f"{self.policy.__name__}: {words}")


def _asked(bench: PolicyBench) -> set[int]:
    interests = interests_of(bench.policy)
    offered = bench.chain.offered()
    return set(OFFERED if interests.apis is None else interests.apis & offered.keys())


def _requests(bench: PolicyBench, *, newest: bool = False) -> Iterator[BenchRequest]:
    """Yield a request of every API and version that the policy declares, with topics where it has some."""
    for key in sorted(_asked(bench)):
        low, high = bench.chain.offered()[key]
        for version in range(high if newest else low, high + 1):
            name = name_of(key)
            yield _request(bench, name, version)
            if key == ApiKey.PRODUCE:
                yield from (_request(bench, name, version, acks) for acks in (0, 1))


def _request(bench: PolicyBench, name: str, version: int, acks: int | None = None) -> BenchRequest:
    try:
        return bench.request(name, version, topics=_TOPICS, acks=acks)
    except ValueError:  # it names no topics, or the codec does not know it
        return bench.request(name, version, acks=acks)
