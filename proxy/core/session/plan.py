"""What we know of requests that begin like this one, settled once instead of per request.

A client repeats itself: the same API, version, client id and (for Produce) transactional id and acks. A plan
is the answer to "what is to be done" for one such beginning; `usual` is the very bytes after the
correlation id that a request must show for the plan to hold. One comparison then tells API, speaker
and acks at once. Whatever does not match is parsed in full and gets a plan of its own.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from struct import Struct
from sys import intern
from typing import TYPE_CHECKING

from policies.api import Need
from proxy.core.errors import ClientProtocolError
from proxy.core.session.channel import Mute
from proxy.core.stats.histogram import FINE_US
from wire import addresses, apis, fetch, header, produce, versions
from wire.administrative import ADMINISTRATIVE
from wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Peer
    from policies.chain import Hooks
    from proxy.core.engine import Engine
    from proxy.core.session.ending import SessionEnd
    from wire.apis import Api

    Rewrite = Callable[[bytearray, int, int], bytes | None]
    """(buffer, body start, body end) -> the new body, or None when it may pass as it is."""

_INT32 = Struct(">i").unpack_from
_TWO_INT32 = Struct(">ii").unpack_from
_KIND = Struct(">i").unpack_from  # api_key << 16 | api_version
ACKS_NONE = 0
ACKS_ALL = -1
SASL = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
"""Kept whole and listened to: see `proxy.core.session.identity`."""
SIGN_ON = SASL | {ApiKey.API_VERSIONS}
"""What a client sends before it is known who it is; the general path counts it as free."""
MAX_UNAUTHENTICATED_BYTES = 65536
"""While a SASL exchange is under way (Kafka caps it at 512 KiB, which SaslAuthenticate keeps)."""


class Plan:
    """See the module. `min_bytes` / `max_bytes` bound the frame sizes it holds for.

    `lead`: changes the first part of the replies, where nothing behind it must be changed.
    `fast`: the fast loop may settle these requests.
    `is_special`: they are either `spared`, or administrative and told to the audit log.
    `simple`: nobody asks about these requests, and each of them gets a reply.
    `plain`: nobody asks about the replies, and they pass as they are.
    `glance`: nobody asks about the replies, and those for which it is True pass as they are.
    """

    __slots__ = (
        "acks",
        "answer",
        "api",
        "cut",
        "fast",
        "fine_us",
        "glance",
        "hooks",
        "is_special",
        "keeps",
        "lead",
        "look",
        "max_bytes",
        "meter",
        "min_bytes",
        "on_request",
        "peer",
        "plain",
        "rewrite",
        "simple",
        "slow_us",
        "slow_variant",
        "spared",
        "tally",
        "topics",
        "upstream",
        "usual",
        "wait_ms",
    )

    def __init__(
        self,
        api: Api,
        peer: Peer,
        usual: bytes,
        acks: int | None,
        hooks: Hooks,
        rewrite: Rewrite | None,
        max_bytes: int,
        engine: Engine,
        wait_ms: int = 0,
        key: tuple[str, str] | None = None,
    ) -> None:
        self.api = api
        self.peer = peer
        self.usual = usual
        self.acks = acks
        self.hooks = hooks
        self.rewrite = rewrite
        self.wait_ms = wait_ms  # when to answer here, from the arrival on; 0: never
        self.keeps = wait_ms > 0 and api.key == ApiKey.PRODUCE
        self.cut = False  # a fetch that asked for more than is granted: it is not the broker's silence that ends it
        self.answer: bytes | None = None  # a reply body made here, whatever the request says
        self.min_bytes = 8 + len(usual)
        self.max_bytes = min(max_bytes, api.request_max_bytes or max_bytes)
        # Only a policy that is content with the header may be asked in the fast loop.
        self.on_request = hooks.on_request if hooks.need is Need.HEADER else None
        self.spared = api.key in SIGN_ON  # no quota counts them
        audited = engine.observer.hears_audit and api.key in ADMINISTRATIVE
        self.is_special = self.spared or audited
        captured = engine.capture is not None and engine.capture.open
        # Whether its body is walked for the usage records: what each topic costs.
        self.topics = engine.topic_usage is not None and api.key in {ApiKey.PRODUCE, ApiKey.FETCH}
        walked = self.topics and api.key == ApiKey.PRODUCE
        self.fast = hooks.need is Need.HEADER and not (self.is_special or captured or walked)
        user, client_id = key or (peer.user, peer.client_id)
        self.meter = engine.meters.find(api.key, api.name, user, client_id, peer.node_id)
        self.upstream = self.meter.upstream
        self.tally = self.meter if engine.meters.by_key else None  # bytes are counted, too
        # A fetch may wait at the broker for what it asked for, and is not slow for that.
        patience_us = 1000 * wait_ms if api.key == ApiKey.FETCH else 0
        self.slow_us = engine.slow_us + patience_us
        self.fine_us = min(self.slow_us, FINE_US)
        self.simple = (
            self.fast
            and acks != ACKS_NONE
            and hooks.on_request is None
            and hooks.on_response is None
            and hooks.on_complete is None
        )
        unheard = (
            hooks.on_response is None
            and hooks.on_complete is None
            and not (captured or self.topics)
        )
        self.plain = unheard and rewrite is None
        self.lead = engine.lead_for(api) if rewrite is not None else None
        self.look = addresses.quick_check(api) if rewrite is not None else None
        self.glance = self.look if unheard else None
        self.slow_variant: Plan | None = None

    def watched(self) -> Plan:
        """The same for a request whose reply must be looked at: not `simple`, not `plain`, no `glance`."""
        twin = self.slow_variant
        if twin is None:
            twin = self.slow_variant = copy(self)
            twin.simple = twin.plain = False
            twin.glance = None
        return twin

    def waiting(self, wait_ms: int, *, cut: bool = False) -> Plan:
        """The same with another deadline, for a request that a policy has changed."""
        if wait_ms == self.wait_ms and cut is self.cut:
            return self
        twin = copy(self)
        twin.wait_ms = wait_ms
        twin.cut = cut
        twin.keeps = twin.keeps and wait_ms > 0
        twin.slow_variant = None
        return twin

    def under(self, hooks: Hooks) -> Plan:
        """The same for a held request that another chain has taken over."""
        twin = copy(self)
        twin.hooks = hooks
        twin.on_request = twin.slow_variant = twin.glance = None
        twin.simple = twin.plain = False
        return twin

    @property
    def silent(self) -> bool:
        """Whether these requests get no reply (a Produce with acks=0)."""
        return self.acks == ACKS_NONE


def plan_for(
    s: SessionEnd, buf: bytearray, pos: int, limit: int, size: int
) -> tuple[Plan, int] | None:
    """The plan for the head at `pos` and where its body begins; None when too little is here."""
    kind = _KIND(buf, pos + 4)[0]
    api_key, api_version = kind >> 16, kind & 0xFFFF
    api = apis.find(api_key, api_version)
    if api is None:
        plan = _plan_for_stranger(s, api_key, api_version)
        if size > plan.max_bytes:
            raise ClientProtocolError(f"{plan.api.name} of {size} bytes ({plan.max_bytes} may be)")
        return plan, pos
    max_bytes = _max_bytes(s, api)
    if size > max_bytes:
        raise ClientProtocolError(f"{api.name} of {size} bytes ({max_bytes} may be)")
    body_at = header.body_at(buf, pos, limit, api.request_header_version)
    if body_at is None:
        return None
    acks: int | None = None
    head_end, wait_ms, clamped = body_at, 0, False
    if api.key == ApiKey.PRODUCE:
        read = produce.read_acks(buf, body_at, limit, api.version)
        if read is None:
            return None
        acks, head_end = read
        if acks == ACKS_ALL:
            head_end += 4
            if head_end > limit:
                return None
            timeout_ms = _INT32(buf, head_end - 4)[0]
            wait_ms = s.engine.graces.produce_wait_ms(timeout_ms)
            clamped = timeout_ms > s.engine.graces.max_ms
    elif api.key == ApiKey.FETCH and api.version >= 1:
        head_end = body_at + fetch.head_offsets(api.version).min_bytes + 4
        if head_end > limit:
            return None
        max_wait_ms, min_bytes = _TWO_INT32(buf, head_end - 8)
        if max_wait_ms > 0 and min_bytes > 0:
            wait_ms = s.engine.graces.fetch_wait_ms(max_wait_ms)
            clamped = max_wait_ms > s.engine.graces.max_ms
    known = s.plans.get(kind)
    if (
        known is not None  # seen before, but this one is cut, or not for the fast loop
        and limit - pos >= 4 + known.min_bytes
        and buf.startswith(known.usual, pos + 12)
    ):
        return known, body_at
    client_id = intern(header.client_id_of(buf, pos, limit).decode(errors="replace"))
    if client_id != s.peer.client_id:
        s.peer = replace(s.peer, client_id=client_id)
        s.plans.clear()
        s.take_key(s.peer.user, client_id, s.engine.now_ms)
    rewrite = s.engine.rewrite_for(api)
    if api.key in SASL:
        rewrite = _listen(s, api)
    usual = bytes(memoryview(buf)[pos + 12 : head_end])
    hooks = s.engine.chain.hooks(api.key, timed=s.engine.measures(s.peer.session_id))
    key = (s.usage.user, s.usage.client_id)
    plan = Plan(api, s.peer, usual, acks, hooks, rewrite, max_bytes, s.engine, wait_ms, key)
    plan.cut = clamped and api.key == ApiKey.FETCH
    if plan.keeps:
        s.keeps = True
    soonest_ms = wait_ms // 2 if plan.keeps else wait_ms  # see `delayed.sent`
    if 0 < soonest_ms < s.shortest_wait_ms:
        s.shortest_wait_ms = soonest_ms
    s.engine.expired.clamped += clamped
    s.plans[kind] = plan
    return plan, body_at


def _max_bytes(s: SessionEnd, api: Api) -> int:
    most = min(s.engine.request_max_bytes, api.request_max_bytes or s.engine.request_max_bytes)
    if s.authenticating and api.key != ApiKey.SASL_AUTHENTICATE:
        return min(most, MAX_UNAUTHENTICATED_BYTES)
    return most


def _plan_for_stranger(s: SessionEnd, api_key: int, api_version: int) -> Plan:
    """What the table does not have: a newer ApiVersions, a key let through on purpose, or the end."""
    max_bytes = s.engine.request_max_bytes
    known = apis.find(ApiKey.API_VERSIONS, 0)
    assert known is not None  # noqa: S101 - the table's first law
    api = replace(known, key=api_key, version=api_version, name=apis.name_of(api_key))
    key = (s.usage.user, s.usage.client_id)
    if api_key == ApiKey.API_VERSIONS:
        plan = Plan(api, s.peer, b"", None, s.engine.no_hooks, None, max_bytes, s.engine, key=key)
        plan.answer = versions.unsupported_version(s.engine.offered)
        return plan
    if api_key in s.engine.pass_unknown and api_key not in apis.OFFERED:
        # No facts, so no look inside: it is paired by correlation id alone, and judged by its header.
        api = replace(api, request_max_bytes=None)
        hooks = s.engine.chain.hooks(api_key)._replace(need=Need.HEADER)
        return Plan(api, s.peer, b"", None, hooks, None, max_bytes, s.engine, key=key)
    raise ClientProtocolError(f"{apis.name_of(api_key)} v{api_version} is not offered here")


def _listen(s: SessionEnd, api: Api) -> Rewrite:
    """Hear from the replies of a SASL exchange who it is, once the broker has said so. Changes nothing."""

    def on_reply(buf: bytearray, start: int, end: int) -> None:
        if s.identity is None:
            return
        under_way = s.identity.authenticating
        principal = s.identity.heard_reply(api.key, api.version, bytes(memoryview(buf)[start:end]))
        if principal is not None and (
            principal.source == "sasl" or s.peer.principal_source != "fixed"
        ):  # a fixed name says more than that the name cannot be read
            s.peer = replace(s.peer, user=intern(principal.user), principal_source=principal.source)
            s.plans.clear()
            s.take_key(s.peer.user, s.peer.client_id, s.engine.now_ms)
        if under_way and principal is None and not s.identity.authenticating:
            s.engine.auth_failures += 1
        if not s.identity.authenticating:  # a refused re-authentication leaves things as they were
            s.authenticating = False
            s.plans.clear()
        if api.key == ApiKey.SASL_AUTHENTICATE:
            s.unmute(Mute.UPSTREAM_AUTH)

    return on_reply
