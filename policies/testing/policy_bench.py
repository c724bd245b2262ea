"""Policies, their hosts and a clock that a test turns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from heapq import heappop
from typing import TYPE_CHECKING, Literal, NamedTuple

from policies.api import FORWARD, Forward, Hold, InTurns, Need, Outcome, Peer, Policy, Throttle
from policies.chain import Chain, Entry
from policies.hooks import adopt_metrics, retire
from policies.responses import Replace, Result
from policies.testing.bench_host import BenchHost, BenchReporter, BenchThreads
from policies.testing.bench_request import (
    BENCH_PEER,
    BenchRequest,
    BenchResponse,
    Released,
    refusals,
    response_to,
)
from policies.testing.client_view import ClientView, client_view
from policies.testing.message_builder import request_body, topic_fields
from policies.testing.record_writer import record_batch
from policies.validation import SettingsError, try_convert
from policies.verdicts import check_request
from wire import apis
from wire.apis import Api, ApiKey
from wire.codec import request_shape
from wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from policies.api import Verdict
    from policies.hook_runner import HookRunner
    from policies.hooks import Hooks
    from policies.messages import Fields

_HEADER_BYTES = 10


class BenchEntry(NamedTuple):
    """One entry of a bench's chain."""

    policy: type[Policy]
    config: Mapping[str, object] = {}
    name: str = "bench"
    mode: Literal["enforce", "observe"] = "enforce"
    on_error: Literal["close", "forward"] = "close"


class _Held(NamedTuple):
    """A request that waits, until when, and for what."""

    until_ms: int
    request: BenchRequest
    peer: Peer
    verdict: Hold


class PolicyBench:
    """One policy, or several in the order of the chain, and a clock that only `advance` moves.

    `then` are the entries below the first one; their names differ. `policy` and `host` are those of the first.
    `files` is the content of the files that the policies read.
    """

    def __init__(
        self,
        policy: type[Policy],
        config: Mapping[str, object] | None = None,
        now_ms: int = 0,
        *,
        mode: Literal["enforce", "observe"] = "enforce",
        on_error: Literal["close", "forward"] = "close",
        then: Sequence[BenchEntry] = (),
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self.reporter = BenchReporter()
        self.now_ms = now_ms
        self.peer = BENCH_PEER
        self.host = BenchHost(files=dict(files or {}))
        self.threads = BenchThreads(lambda: self.now_ms, self._call_at, self.host.read)
        """Where `host.run_blocking` runs."""
        self.released: list[Released] = []
        self._held: list[_Held] = []
        self._ids = 0
        self._entries = (BenchEntry(policy, config or {}, "bench", mode, on_error), *then)
        self.chain = self._chain_of(self._make(), None)
        self._ticked_ms = {entry.name: now_ms for entry in self.chain.entries}

    @property
    def policy(self) -> Policy:
        """The first policy of the chain."""
        return self.chain.entries[0].policy

    def policy_of(self, name: str) -> Policy:
        """Return the policy of the entry of this name. Raises KeyError if there is none."""
        return {entry.name: entry.policy for entry in self.chain.entries}[name]

    def _make(self) -> list[Entry]:
        before, made = self.host, []
        for place, entry in enumerate(self._entries):
            host = BenchHost(
                entry.name, entry.mode == "observe", before.woken, before.files, before.topics
            )
            host.alarms, host.order = before.alarms, before.order
            host.has_custody = before.has_custody
            host.on_wake, host.on_reconsider = self.wake, self._reconsider
            settings, problems = try_convert(entry.policy.Config, dict(entry.config), "config")
            if problems:
                raise SettingsError(problems)
            if place == 0:
                self.host = host
            policy = entry.policy(settings, host)
            made.append(Entry(entry.name, policy, entry.mode, entry.on_error, host))
        return made

    def _chain_of(self, entries: list[Entry], hook_runner: HookRunner | None) -> Chain:
        chain = Chain(entries, self.reporter, hook_runner)
        for entry in entries:
            if entry.tools is not None:
                entry.tools.connect_tools(self.threads, chain.hook_runner)
        return chain

    def _call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        self.host.call_at(at_ms, call)

    def reload(self, config: Mapping[str, object] | None = None, name: str = "bench") -> Policy:
        """Make every policy again, the one of this name with another config if it is given; return that one.

        As in the proxy each adopts the state of its predecessor, requests in flight end under the old chain, and held
        requests move to the new one. Raises SettingsError or PolicyConfigError and changes nothing if the config is
        refused.
        """
        entries, host = self._entries, self.host
        if config is not None:
            self._entries = tuple(
                each._replace(config=config) if each.name == name else each for each in entries
            )
        try:
            made = self._make()
        except ValueError:
            self._entries, self.host = entries, host
            raise
        before = {entry.name: entry for entry in self.chain.entries}
        retire(before.values())
        self.chain = self._chain_of(made, self.chain.hook_runner)
        for held in self._held:
            request = held.request
            position = request.held
            if request.hooks is None or position is None:
                continue
            moved = self.chain.resume_position(request.api_key, position, request.hooks, ())
            if moved is not None:
                request.hooks, request.held = moved[:2]
        for entry in made:
            adopt_metrics(entry, before[entry.name])
            notify = self.chain.hook_runner.notify
            notify(entry.name, "adopt", entry.policy.adopt, before[entry.name].policy)
        return self.policy_of(name)

    def topic_id(self, topic: str) -> bytes:
        """Return the id of this topic on the bench; from now on the policies' hosts know its name."""
        found = blake2b(topic.encode(), digest_size=16).digest()
        self.host.topics[found] = topic
        return found

    def request(
        self,
        api: str,
        version: int | None = None,
        *,
        topics: Iterable[str] | Mapping[str, Iterable[int]] = (),
        records: bytes | Sequence[bytes] | None = None,
        compression: str = "none",
        fields: Fields | None = None,
        size_bytes: int | None = None,
        acks: int | None = None,
        body: bytes | None = None,
        node_id: int | None = 1,
    ) -> BenchRequest:
        """Return a request of this API, by Kafka's name; the newest offered version unless `version` is given.

        `topics` names topics, or maps each to its partitions (else partition 0). `records` are a batch, or the values
        of one that is made with this `compression`. `fields` are the fields of the message. `body` is the whole body
        instead. The size is that of the request; without any of these it is 100 unless `size_bytes` is given.

        Raises ValueError if Sluice does not offer the API or version, or a field does not fit it.
        """
        facts = self._facts(api, version)
        self._ids += 1
        if acks is None and facts.key == ApiKey.PRODUCE:
            acks = -1
        hooks = self.chain.hooks(facts.key)
        named = bool(topics) or records is not None or fields is not None
        sent = body
        if sent is None and (named or hooks.need > Need.HEADER):
            try:
                sent = self._body(facts, topics, records, compression, dict(fields or {}), acks)
            except WireError:
                if named:
                    raise
        if size_bytes is None:
            header = _HEADER_BYTES + len(self.peer.client_id) + (facts.request_header_version > 1)
            size_bytes = header + len(sent) if named and sent is not None else 100
        request = BenchRequest(facts, self._ids, node_id, size_bytes, acks)
        request.sent_body, request.began_ms = sent or b"", self.now_ms
        if body is not None or hooks.need >= Need.BODY:
            request.body = sent or b""
        if hooks.need > Need.HEADER and sent is not None:
            with suppress(WireError):  # a hostile body: the core closes such a connection
                request.read_head(sent)
                if hooks.need is Need.TOPICS:
                    request.read_names(self.host.topics)
        return request

    def _facts(self, api: str, version: int | None) -> Api:
        key = apis.key_of(api)
        if key is None:
            raise ValueError(f"{api!r} is not the name of a Kafka API")
        offered = self.chain.offered().get(key, (0, -1))
        chosen = offered[1] if version is None else version
        facts = apis.find(key, chosen) if chosen <= offered[1] else None
        if facts is None:
            raise ValueError(f"{api} v{chosen} is outside the offered versions {offered}")
        return facts

    def _body(
        self,
        api: Api,
        topics: Iterable[str] | Mapping[str, Iterable[int]],
        records: bytes | Sequence[bytes] | None,
        compression: str,
        fields: dict[str, object],
        acks: int | None,
    ) -> bytes:
        asked = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, (0,))
        if records is not None and not isinstance(records, bytes):
            records = record_batch(records, compression=compression, timestamp_ms=self.now_ms)
        if asked:
            ids = {topic: self.topic_id(topic) for topic in asked}
            fields = topic_fields(request_shape(api), asked, ids, records) | fields
        if api.key == ApiKey.PRODUCE:
            fields = {"acks": acks, "timeout": 30_000} | fields
        return request_body(api, fields)

    def reads(self, request: BenchRequest) -> bool:
        """Return whether the body has what the policies need; without it the core ends the connection."""
        if self.chain.hooks(request.api_key).need is not Need.TOPICS:
            return True
        with suppress(WireError):
            request.read_names(self.host.topics)
            return True
        return False

    def ask(self, request: BenchRequest, peer: Peer | None = None) -> Verdict:
        """Return what the chain decides; FORWARD when the policy is not interested in this API."""
        peer = request.peer = peer or self.peer
        request.hooks = self.chain.hooks(request.api_key)
        self.reads(request)
        if request.hooks.prepare is not None and request.names is not None:
            list(request.hooks.prepare(request, peer))  # to its end
        on_request = request.hooks.on_request
        verdict = FORWARD if on_request is None else on_request(request, peer, self.now_ms)
        if verdict is not FORWARD:
            check_request(verdict)
        request.refusals = tuple(refusals(request, verdict))
        if isinstance(verdict, Hold):
            self._hold(request, peer, verdict)
        return verdict

    def reply(
        self,
        request: BenchRequest,
        size_bytes: int | None = None,
        *,
        fields: Fields | None = None,
        body: bytes | None = None,
        throttle_time_ms: int = 0,
        peer: Peer | None = None,
    ) -> Forward | Throttle | Replace:
        """Deliver the broker's reply and complete the request. Returns the decision of the chain about the reply.

        `fields` are those of the reply's message, `body` is the whole body instead; the size is 100 unless one of them
        or `size_bytes` is given. With `hears_body` the policies get the body: of a message of zeros if
        nothing is given, and none if only `size_bytes` is, as of a reply that is too large to be kept.
        """
        hooks = self._hooks_of(request)
        request.names = None
        heard = bool(hooks.hears_body)
        response = response_to(request, size_bytes, fields, body, self.host.topics, heard=heard)
        response.throttle_time_ms = throttle_time_ms
        verdict: Forward | Throttle | Replace = FORWARD
        if hooks.on_response is not None:
            found = hooks.on_response(request, response, peer or self.peer, self.now_ms)
            verdict = found.verdict() if isinstance(found, InTurns) else found
        self.complete(request, Outcome.REPLIED, response)
        return verdict

    def complete(
        self, request: BenchRequest, outcome: Outcome, response: BenchResponse | None = None
    ) -> None:
        """End the request with this outcome; `response` is the reply that its client got."""
        request.names = None
        on_complete = self._hooks_of(request).on_complete
        if on_complete is not None:
            result = Result(response, request.refusals)
            on_complete(request, outcome, request.peer, result, self.now_ms)

    def disconnect(self, peer: Peer) -> None:
        """Disconnect the client; the requests that are held for it are dropped."""
        for each in [each for each in self._held if each.peer.session_id == peer.session_id]:
            self._held.remove(each)
            self.complete(each.request, Outcome.DISCONNECTED)
        self.chain.on_disconnect(peer, self.now_ms)

    def wake(self, key: Hashable) -> int:
        """Judge the requests held for this key again, as the core does. Returns their number."""
        woken = [each for each in self._held if each.verdict.watch == key]
        for each in woken:
            self._held.remove(each)
            self._resume(each, None)
        return len(woken)

    def drain(self) -> None:
        """End every hold by its `then`, as the proxy does when it drains."""
        while self._held:
            held = self._held.pop(0)
            self._resume(held, held.verdict.then)

    def client_sees(self, request: BenchRequest, verdict: Verdict) -> ClientView:
        """Return what the client reads after this verdict on its request. A hold counts as not woken."""
        body = request.sent_body
        if not body:
            with suppress(WireError):
                body = request_body(request.api, {})
        return client_view(
            request.api,
            body,
            verdict,
            policy="bench",
            is_silent=request.acks == 0,
            topics=self.host.topics,
        )

    def advance(self, elapsed_ms: int) -> None:
        """Advance the clock: alarms ring, holds end, the policies tick, each at its time."""
        until_ms = self.now_ms + elapsed_ms
        never_ms = until_ms + 1
        while True:
            alarms = self.host.alarms
            alarm_ms = alarms[0][0] if alarms else never_ms
            ticks = [
                (self._ticked_ms[entry.name] + every_ms, place)
                for place, entry in enumerate(self.chain.entries)
                if (every_ms := entry.policy.tick_ms)
            ]
            tick_ms, ticking = min(ticks, default=(never_ms, 0))
            first = min(self._held, key=lambda each: each.until_ms, default=None)
            end_ms = first.until_ms if first else never_ms
            next_ms = min(alarm_ms, tick_ms, end_ms)
            if next_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            if next_ms == alarm_ms:
                heappop(alarms)[2](self.now_ms)
            elif next_ms == tick_ms:
                entry = self.chain.entries[ticking]
                self._ticked_ms[entry.name] = tick_ms
                entry.policy.on_tick(self.now_ms)
            elif first is not None:
                self._held.remove(first)
                self._resume(first, first.verdict.then)
        self.now_ms = until_ms

    def _reconsider(self) -> None:
        self.chain.reconsider()

    def _hooks_of(self, request: BenchRequest) -> Hooks:
        return request.hooks or self.chain.hooks(request.api_key)

    def _hold(self, request: BenchRequest, peer: Peer, verdict: Hold) -> None:
        until_ms = self.now_ms + verdict.max_delay_ms
        self._held.append(_Held(until_ms, request, peer, verdict))

    def _resume(self, held: _Held, verdict: Verdict | None) -> None:
        request, peer = held.request, held.peer
        on_hold_over = self.chain.hooks(request.api_key).on_hold_over
        if on_hold_over is not None:
            verdict = on_hold_over(request, peer, self.now_ms, verdict)
        elif verdict is None:  # the policy is no longer interested in this API
            verdict = FORWARD
        if isinstance(verdict, Hold):
            self._hold(request, peer, verdict)
        else:
            self.released.append(Released(self.now_ms, request, verdict))
