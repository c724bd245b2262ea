"""One policy, its host and a clock that a test turns."""

from __future__ import annotations

from heapq import heappop
from typing import TYPE_CHECKING

from policies.api import FORWARD, Forward, Hold, Outcome, Peer, Throttle
from policies.chain import Chain, Entry
from policies.testing.bench_host import BenchHost, BenchReporter
from policies.testing.bench_request import BenchRequest, BenchResponse, Released
from policies.testing.bench_threads import BenchThreads
from policies.validation import SettingsError, try_convert
from policies.verdicts import check_request
from wire import apis

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from policies.api import Policy, Verdict


class PolicyBench:
    """One policy, its host, and a clock that only `advance` moves."""

    def __init__(
        self, policy: type[Policy], config: Mapping[str, object] | None = None, now_ms: int = 0
    ) -> None:
        self.host = BenchHost()
        self.reporter = BenchReporter()
        self.now_ms = now_ms
        self.peer = Peer(session_id=1, host="127.0.0.1", port=50000, client_id="bench")
        settings, problems = try_convert(policy.Config, dict(config or {}), "config")
        if problems:
            raise SettingsError(problems)
        self.policy = policy(settings, self.host)
        self.chain = Chain([Entry("bench", self.policy, tools=self.host)], self.reporter)
        self.threads = BenchThreads(lambda: self.now_ms, self.host.call_at)
        """Where `host.run_blocking` runs."""
        self.host.connect_tools(self.threads, self.chain.hook_runner)
        self.host.on_wake, self.host.on_reconsider = self.wake, self.chain.reconsider
        self.released: list[Released] = []
        self._held: list[tuple[int, BenchRequest, Peer, Hold]] = []
        self._ids = 0
        self._ticked_ms = now_ms

    def request(
        self,
        api: str,
        version: int | None = None,
        *,
        size_bytes: int = 100,
        acks: int | None = None,
        body: bytes | None = None,
        node_id: int | None = 1,
    ) -> BenchRequest:
        """Return a request of this API, by Kafka's name; the newest offered version unless `version` is given.

        Raises ValueError if Sluice does not offer the API or version.
        """
        key = apis.key_of(api)
        if key is None:
            raise ValueError(f"{api!r} is not the name of a Kafka API")
        offered = self.chain.offered().get(key, (0, -1))
        chosen = offered[1] if version is None else version
        facts = apis.find(key, chosen) if chosen <= offered[1] else None
        if facts is None:
            raise ValueError(f"{api} v{chosen} is outside the offered versions {offered}")
        self._ids += 1
        if acks is None and key == apis.ApiKey.PRODUCE:
            acks = -1
        return BenchRequest(facts, self._ids, node_id, size_bytes, acks, None, body)

    def ask(self, request: BenchRequest, peer: Peer | None = None) -> Verdict:
        """Return what the chain decides; FORWARD when the policy is not interested in this API."""
        peer = peer or self.peer
        on_request = self.chain.hooks(request.api_key).on_request
        verdict = FORWARD if on_request is None else on_request(request, peer, self.now_ms)
        if verdict is not FORWARD:
            check_request(verdict)
        if isinstance(verdict, Hold):
            self._hold(request, peer, verdict)
        return verdict

    def reply(
        self,
        request: BenchRequest,
        size_bytes: int = 100,
        *,
        throttle_time_ms: int = 0,
        peer: Peer | None = None,
    ) -> Forward | Throttle:
        """Deliver the broker's reply and complete the request. Returns what the chain decides about the reply."""
        hooks = self.chain.hooks(request.api_key)
        verdict: Forward | Throttle = FORWARD
        if hooks.on_response is not None:
            response = BenchResponse(size_bytes, throttle_time_ms)
            verdict = hooks.on_response(request, response, peer or self.peer, self.now_ms)
        self.complete(request, Outcome.REPLIED)
        return verdict

    def complete(self, request: BenchRequest, outcome: Outcome) -> None:
        """End the request with this outcome."""
        on_complete = self.chain.hooks(request.api_key).on_complete
        if on_complete is not None:
            on_complete(request, outcome, self.now_ms)

    def disconnect(self, peer: Peer) -> None:
        """Disconnect the client; the requests that are held for it are dropped."""
        for each in [each for each in self._held if each[2].session_id == peer.session_id]:
            self._held.remove(each)
            self.complete(each[1], Outcome.DISCONNECTED)
        self.chain.on_disconnect(peer, self.now_ms)

    def wake(self, key: Hashable) -> int:
        """Judge the requests held for this key again, as the core does. Returns their number."""
        woken = [each for each in self._held if each[3].watch == key]
        for each in woken:
            self._held.remove(each)
            self._resume(each[1], each[2], None)
        return len(woken)

    def advance(self, elapsed_ms: int) -> None:
        """Advance the clock: alarms ring, holds end, the policy ticks, each at its time."""
        until_ms = self.now_ms + elapsed_ms
        while True:
            alarms = self.host.alarms
            alarm_ms = alarms[0][0] if alarms else until_ms + 1
            tick_ms = self._ticked_ms + self.policy.tick_ms if self.policy.tick_ms else until_ms + 1
            first = min(self._held, key=lambda each: each[0], default=None)
            end_ms = first[0] if first else until_ms + 1
            next_ms = min(alarm_ms, tick_ms, end_ms)
            if next_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            if next_ms == alarm_ms:
                heappop(alarms)[2](self.now_ms)
            elif next_ms == tick_ms:
                self._ticked_ms = tick_ms
                self.policy.on_tick(self.now_ms)
            elif first is not None:
                self._held.remove(first)
                self._resume(first[1], first[2], first[3].then)
        self.now_ms = until_ms

    def _hold(self, request: BenchRequest, peer: Peer, verdict: Hold) -> None:
        self._held.append((self.now_ms + verdict.max_delay_ms, request, peer, verdict))

    def _resume(self, request: BenchRequest, peer: Peer, verdict: Verdict | None) -> None:
        on_hold_over = self.chain.hooks(request.api_key).on_hold_over
        if on_hold_over is not None:
            verdict = on_hold_over(request, peer, self.now_ms, verdict)
        elif verdict is None:  # the policy is no longer interested in this API
            verdict = FORWARD
        if isinstance(verdict, Hold):
            self._hold(request, peer, verdict)
        else:
            self.released.append(Released(self.now_ms, request, verdict))
