"""The decisions about requests with the same head, made once instead of per request.

A client repeats itself: the same API, version, client id and (for Produce) transactional id and acks. A plan
has all decisions for one such head. `prefix` is the bytes after the correlation id; a request with the same
bytes has the same plan, so that one comparison checks API, client id and acks. A request that does not match
is parsed in full and gets a plan of its own.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from policies.api import Need
from proxy.core.session import paths
from proxy.core.stats.histogram import FINE_US
from wire import addresses, throttle
from wire.apis import ADMINISTRATIVE, SIGN_ON, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Peer
    from policies.chain import Hooks
    from policies.client_gate import ClientGate
    from proxy.core.session.rewrites import Rewrite
    from proxy.core.session.shared_state import SharedState
    from proxy.core.stats.topic_counter import TopicCounter
    from proxy.core.stats.usage import Usage
    from wire.apis import Api
    from wire.fetch_walk import FetchWalk

    Join = Callable[[bytes, int, int], bytes]
    """(body, its start, its end) -> the body with items that were refused here."""

ACKS_NONE = 0
ACKS_ALL = -1
# A member of an enum is found more slowly.
_PRODUCE: Final = ApiKey.PRODUCE
_FETCH: Final = ApiKey.FETCH
_HEADER: Final = Need.HEADER
_HEAD: Final = Need.HEAD
_TOPICS: Final = Need.TOPICS
SASL = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""Kept whole and listened to: see `proxy.core.session.identity`."""
MAX_UNAUTHENTICATED_BYTES = 65536
"""The largest body of a request during a SASL exchange, except a SaslAuthenticate."""


class Plan:
    """The decisions about requests with the same `prefix`. `min_bytes` and `max_bytes` are the range of frame sizes.

    `lead`: rewrites the first part of the replies; None if a later part must be changed, too.
    `request_path`, `reply_path`: see `paths`. `gate`: it is asked first, if there is one. `fast_bytes`: the size of the
    longest request on the fast path; 0 under GENERAL. `silent`: they get no reply (a Produce with acks=0).
    `shows_names`: under SHOWN, the topics and groups that requests name are shown, too.
    `untagged_shape`: the shape in which a reply surely names no broker. `walks_tail`: a reply that is in another shape,
    or not whole, streams up to its last tags, which may name brokers.
    `is_special`: they are of an API to sign on by, or administrative and written to the audit log. `is_sign_on`: they
    are part of a sign-on, and no quota counts them.
    `streamed`: `rewrite`, `lead` and `walks_tail` of replies that policies do not hear whole; None if they hear none.
    """

    __slots__ = (
        "acks",
        "answer",
        "api",
        "body",
        "body_at",
        "counts_fetched",
        "counts_produced",
        "ends_at_deadline",
        "fast_bytes",
        "fine_us",
        "gate",
        "hooks",
        "is_sign_on",
        "is_special",
        "joins",
        "keeps_partitions",
        "lead",
        "max_bytes",
        "meter",
        "min_bytes",
        "on_request",
        "peer",
        "prefix",
        "reply_path",
        "request_path",
        "rewrite",
        "shows_names",
        "silent",
        "slow_us",
        "slow_variant",
        "stamp",
        "streamed",
        "tally",
        "topics",
        "untagged_shape",
        "upstream",
        "usage",
        "wait_ms",
        "walk",
        "walks_tail",
    )

    def __init__(
        self,
        api: Api,
        peer: Peer,
        prefix: bytes,
        acks: int | None,
        hooks: Hooks,
        rewrite: Rewrite | None,
        max_bytes: int,
        shared: SharedState,
        usage: Usage,
        wait_ms: int = 0,
        *,
        signs_on: bool = False,
    ) -> None:
        self.api = api
        self.peer = peer
        self.prefix = prefix
        self.acks = acks
        self.silent = acks == ACKS_NONE
        self.hooks = hooks
        self.rewrite = rewrite
        self.wait_ms = wait_ms  # when to answer here, from the arrival on; 0: never
        self.keeps_partitions = wait_ms > 0 and api.key == _PRODUCE
        self.joins: Join | None = None  # adds what was refused to a reply made here
        self.ends_at_deadline = (
            False  # in any case: a fetch with a longer wait than `GraceTimes.max_ms`
        )
        self.answer: bytes | None = None  # a reply body made here, for any request
        self.body: bytes | None = None  # sent on in the place of the client's, for any request
        self.min_bytes = 8 + len(prefix)
        self.max_bytes = max_bytes
        self.on_request = hooks.on_request
        self.is_sign_on = signs_on
        audited = shared.observer.receives_audit and api.key in ADMINISTRATIVE
        self.is_special = audited or api.key in SIGN_ON
        captured = shared.capture is not None and shared.capture.open
        # Whether bodies are read for the usage records: what each topic costs.
        self.counts_produced = shared.topic_usage is not None and api.key == _PRODUCE
        self.counts_fetched = shared.topic_usage is not None and api.key == _FETCH
        self.topics: TopicCounter | None = None
        if shared.topic_usage is not None and (self.counts_produced or self.counts_fetched):
            # In a Produce they follow the timeout, which the prefix has only with ACKS_ALL.
            topics_at = 12 + len(prefix) + (0 if acks == ACKS_ALL else 4)
            from proxy.core.stats.topic_counter import TopicCounter  # noqa: PLC0415 - others do not need it

            self.topics = TopicCounter(shared.topic_usage, peer.user, api, topics_at)
        self.gate: ClientGate | None = None
        self.request_path = paths.GENERAL
        if not (self.is_special or captured):
            self.request_path = self._request_path(hooks)
        self.shows_names = self.request_path == paths.SHOWN and hooks.need is _TOPICS
        self.fast_bytes = 0 if self.request_path == paths.GENERAL else max_bytes
        self.body_at = 0  # from the frame's start; under SHOWN
        self.usage = usage
        self.meter = shared.meters.find(
            api.key, api.name, usage.user, usage.client_id, peer.node_id
        )
        self.upstream = self.meter.upstream
        self.tally = self.meter if shared.meters.by_key else None  # bytes are counted, too
        # A fetch may wait at the broker for what it asked for, and is not slow for that.
        patience_us = 1000 * wait_ms if api.key == _FETCH else 0
        self.slow_us = shared.slow_us + patience_us
        self.fine_us = min(self.slow_us, FINE_US)
        self.stamp = throttle.stamper(api)  # writes a throttle time into a reply
        self.lead: Rewrite | None = None
        if rewrite is not None:
            self.lead = shared.rewrites.lead_for(api)
        self.untagged_shape = addresses.quick_check(api) if rewrite is not None else None
        self.walks_tail = rewrite is not None and api.key == _FETCH
        self.walk: FetchWalk | None = None  # made with the first reply that needs it
        self.reply_path = paths.HEARD
        if _hears_no_reply(hooks) and not captured:
            if rewrite is None:
                self.reply_path = paths.PASSES
            elif self.untagged_shape is not None:
                self.reply_path = paths.IF_UNTAGGED
        self.slow_variant: Plan | None = None
        self.streamed: tuple[Rewrite | None, Rewrite | None, bool] | None = None
        if hooks.hears_body:
            self.keep_replies()

    def _request_path(self, hooks: Hooks) -> int:
        """Return the path of these requests, if they are ordinary, and open their gate."""
        if hooks.need is not _HEADER:
            walks = hooks.need is _HEAD and self.api.key == _PRODUCE
            return paths.GENERAL if walks else paths.SHOWN
        if self.silent:
            return paths.ASKED
        if hooks.on_request is None and _hears_no_reply(hooks):
            return paths.PASSES
        if hooks.open_gate is not None:
            self.gate = hooks.open_gate(self.api.key, self.acks, self.peer)
        return paths.ASKED if self.gate is None else paths.GATED

    def watched(self) -> Plan:
        """Return the variant for a request whose reply must be looked at, so that it cannot pass."""
        variant = self.slow_variant
        if variant is None:
            variant = self.slow_variant = copy(self)
            variant.request_path = max(self.request_path, paths.ASKED)
            variant.reply_path = paths.HEARD
        return variant

    def waiting(self, wait_ms: int, *, ends_at_deadline: bool = False) -> Plan:
        """Return the plan with another deadline, for a request that a policy has changed."""
        if wait_ms == self.wait_ms and ends_at_deadline is self.ends_at_deadline:
            return self
        variant = copy(self)
        variant.wait_ms = wait_ms
        variant.ends_at_deadline = ends_at_deadline
        variant.keeps_partitions = variant.keeps_partitions and wait_ms > 0
        variant.slow_variant = None
        return variant

    def joining(self, rewrite: Rewrite, lead: Rewrite | None, join: Join, hooks: Hooks) -> Plan:
        """Return the plan for a request of which a part was refused: its reply is joined."""
        variant = self.under(hooks)
        variant.rewrite, variant.lead, variant.joins = rewrite, lead, join
        variant.untagged_shape = None
        if hooks.hears_body:
            variant.keep_replies()
        return variant

    def under(self, hooks: Hooks) -> Plan:
        """Return the plan with the hooks of another chain, for a held request."""
        variant = self.unheard()
        variant.hooks = hooks
        variant.on_request = variant.slow_variant = variant.gate = None
        variant.request_path = max(self.request_path, paths.ASKED)
        variant.reply_path = paths.HEARD
        if hooks.hears_body:
            variant.keep_replies()
        return variant

    def unheard(self) -> Plan:
        """Return the plan for a reply that is too large to be kept: it streams, and no policy hears its body."""
        variant = copy(self)
        if self.streamed is not None:
            variant.rewrite, variant.lead, variant.walks_tail = self.streamed
        variant.streamed = variant.slow_variant = None
        return variant

    def keep_replies(self) -> None:
        """Have the replies kept whole, because a policy hears their bodies."""
        self.streamed = self.rewrite, self.lead, self.walks_tail
        self.rewrite = self.rewrite or _unchanged
        self.lead = self.untagged_shape = None
        self.walks_tail = False
        self.reply_path = paths.HEARD


def _hears_no_reply(hooks: Hooks) -> bool:
    return hooks.on_response is None and hooks.on_complete is None


def _unchanged(_buf: bytearray, _start: int, _end: int) -> None:
    """Rewrite nothing."""
