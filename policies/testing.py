"""Ready-made requests and a hand-turned clock, for authors of policies (and for our own tests).

    bench = PolicyBench(Limits, {"forbidden_apis": ["DeleteTopics"]})
    assert bench.ask(bench.request("DeleteTopics")) == Reject(ErrorCode.POLICY_VIOLATION)

`ask` goes through a real Chain, so order, modes and `on_error` behave as in the proxy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.api import FORWARD, Outcome, Peer
from policies.chain import ASKED_ALL, Chain, Entry
from policies.settings import SettingsError, try_convert
from wire import apis

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from policies.api import Policy, Verdict
    from wire.apis import Api
    from wire.fetch import FetchHead
    from wire.produce import ProduceWalker


@dataclass
class BenchRequest:
    """A request with every field in the open."""

    api: Api
    exchange_id: int = 1
    node_id: int | None = 1
    size_bytes: int = 100
    acks: int | None = None
    head: ProduceWalker | FetchHead | None = None
    body: bytes | None = None
    asked: int = ASKED_ALL

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""
        return self.api.key

    @property
    def api_version(self) -> int:
        """The version."""
        return self.api.version


@dataclass
class BenchResponse:
    """A reply of this size."""

    size_bytes: int = 100


@dataclass
class BenchHost:
    """Remembers what was woken."""

    name: str = "bench"
    woken: list[Hashable] = field(default_factory=list)

    def wake(self, key: Hashable) -> None:
        """Note it."""
        self.woken.append(key)


@dataclass
class BenchReporter:
    """Remembers what was reported."""

    errors: list[tuple[str, str, BaseException]] = field(default_factory=list)
    observed: list[tuple[str, Verdict]] = field(default_factory=list)

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """Note it."""
        self.errors.append((name, hook, error))

    def on_policy_observed(self, name: str, verdict: Verdict) -> None:
        """Note it."""
        self.observed.append((name, verdict))


class PolicyBench:
    """One policy, its host, and a clock that stands still until `advance`."""

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
        self.chain = Chain([Entry("bench", self.policy)], self.reporter)
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
        """A request of this API, by Kafka's name; the newest version on offer unless told."""
        key = apis.key_of(api)
        if key is None:
            raise ValueError(f"no Kafka API is called {api!r}")
        chosen = apis.OFFERED.get(key, (0, 0))[1] if version is None else version
        facts = apis.find(key, chosen)
        if facts is None:
            raise ValueError(f"{api} v{chosen} is not offered to clients")
        self._ids += 1
        if acks is None and key == apis.ApiKey.PRODUCE:
            acks = -1
        return BenchRequest(facts, self._ids, node_id, size_bytes, acks, None, body)

    def ask(self, request: BenchRequest, peer: Peer | None = None) -> Verdict:
        """What the chain decides. FORWARD when the policy does not want to see this API."""
        on_request = self.chain.hooks(request.api_key).on_request
        return (
            FORWARD if on_request is None else on_request(request, peer or self.peer, self.now_ms)
        )

    def reply(self, request: BenchRequest, size_bytes: int = 100) -> None:
        """The broker's reply arrives, and the request completes."""
        hooks = self.chain.hooks(request.api_key)
        if hooks.on_response is not None:
            hooks.on_response(request, BenchResponse(size_bytes), self.peer, self.now_ms)
        self.complete(request, Outcome.REPLIED)

    def complete(self, request: BenchRequest, outcome: Outcome) -> None:
        """The request ends this way."""
        on_complete = self.chain.hooks(request.api_key).on_complete
        if on_complete is not None:
            on_complete(request, outcome, self.now_ms)

    def advance(self, elapsed_ms: int) -> None:
        """Turn the clock, ticking the policy as often as it wants."""
        until_ms = self.now_ms + elapsed_ms
        every_ms = self.policy.tick_ms
        while every_ms and self._ticked_ms + every_ms <= until_ms:
            self.now_ms = self._ticked_ms = self._ticked_ms + every_ms
            self.policy.on_tick(self.now_ms)
        self.now_ms = until_ms
