"""Rewrites of the broker's replies: addresses and API ranges; and the topic names that are read from them.

Rules:
- One closure for each API version, made when it is first needed.
- If only the first part of a reply must be changed, `lead_for` changes that part alone.
- The brokers of a cluster answer ApiVersions with the same bytes, each new client of theirs: the last one is kept.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from proxy.core.session.lead import Lead
from proxy.core.session.token_owners import TokenOwners
from wire import addresses, delegation_tokens, metadata, versions
from wire.apis import OFFERED, ApiKey
from wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from proxy.core.topology import Topology
    from wire.apis import Api

    Rewrite = Callable[[bytearray, int, int], bytes | None]
    """(buffer, body start, body end) -> the new body, or None when it may pass as it is."""

MAX_KEPT_VERSIONS_BYTES = 16 << 10
"""The longest ApiVersions reply that is kept. A broker's has a tenth of that."""
MAX_TOPICS = 100_000
"""The most topic names that are kept; a larger cache is cleared."""


class Rewrites:
    """The rewrites of one process. `wants_topic_names`: whether Metadata replies are read for them."""

    def __init__(self, topology: Topology, pass_unknown: Collection[int]) -> None:
        self._topology = topology
        self._made: dict[int, Rewrite | None] = {}
        self._leads: dict[int, Lead | None] = {}
        self.offered = OFFERED
        self.hidden: frozenset[int] = frozenset()
        """APIs that ApiVersions leaves out, because a policy refuses them."""
        self.pass_unknown = frozenset(pass_unknown)
        self.served: frozenset[int] = frozenset()
        """APIs that Sluice answers itself, for all clients."""
        self.topics: dict[bytes, str] = {}
        self.token_owners = TokenOwners()
        self.names_unread = 0
        """Metadata replies whose topic names could not be read."""
        self.wants_topic_names = False

    def want_topic_names(self, *, wanted: bool) -> None:
        """Start reading topic names from Metadata replies, or stop."""
        self.wants_topic_names = wanted
        self._made.clear()

    def rewrite_for(self, api: Api) -> Rewrite | None:
        """Return the rewrite of this API's replies; None if nothing must be changed."""
        kind = api.key << 16 | api.version
        if kind not in self._made:
            self._made[kind] = self._make(api)
        return self._made[kind]

    def lead_for(self, api: Api) -> Lead | None:
        """Return the rewrite of the first part of this API's replies; None if later parts must be changed, too."""
        kind = api.key << 16 | api.version
        if kind not in self._leads:
            find = addresses.lead_finder(api)
            self._leads[kind] = find and Lead(api, find, self._advertise(api), self._topology)
        return self._leads[kind]

    def learn(self, learned: Mapping[bytes, str]) -> None:
        """Keep topic names that were read from a reply."""
        if len(self.topics) + len(learned) > MAX_TOPICS:
            self.topics.clear()
        self.topics.update(islice(learned.items(), MAX_TOPICS))

    def _advertise(self, api: Api) -> addresses.Advertise:
        # Where controllers are named their addresses are hidden, and nothing is learnt from them.
        learns = api.key in addresses.LISTENER_APIS
        return self._topology.advertise if learns else self._topology.conceal

    def _make(self, api: Api) -> Rewrite | None:
        if api.key == ApiKey.API_VERSIONS:
            return _Narrowing(self, api.version)
        if api.key in delegation_tokens.APIS:
            return lambda buf, start, end: self.token_owners.learn(api, buf, start, end)
        lead = self.lead_for(api)
        if lead is not None:
            if api.key != ApiKey.METADATA or not self.wants_topic_names:
                return lead

            def learn_and_rewrite(buf: bytearray, start: int, end: int) -> bytes | None:
                self._learn_topics(buf, start, end, api)
                return lead(buf, start, end)

            return learn_and_rewrite
        rewriter = addresses.rewriter(api)
        if rewriter is None:
            return None
        advertise = self._advertise(api)
        return lambda buf, start, end: rewriter(buf, start, end, advertise)

    def _learn_topics(self, buf: bytearray, start: int, end: int, api: Api) -> None:
        if api.version < 10:
            return
        try:
            learned = metadata.topic_names(buf, start, end, api)
        except WireError:  # the reply passes all the same, if its brokers can be read
            self.names_unread += 1
            return
        self.learn(learned)


class _Narrowing:
    """Narrows the replies to ApiVersions requests of one version. Keeps the last one, and what was made of it."""

    __slots__ = ("_body", "_narrowed", "_rewrites", "_settings", "_version")

    def __init__(self, rewrites: Rewrites, version: int) -> None:
        self._rewrites = rewrites
        self._version = version
        self._body = self._narrowed = b""
        self._settings: tuple[object, ...] = ()

    def __call__(self, buf: bytearray, start: int, end: int) -> bytes:
        """Return the narrowed body. Raises WireError if it is malformed."""
        rewrites = self._rewrites
        settings = rewrites.offered, rewrites.hidden, rewrites.served
        body = bytes(memoryview(buf)[start:end])
        if body == self._body and settings == self._settings:
            return self._narrowed
        offered, hidden, served = settings
        shown = {key: offered[key] for key in offered.keys() - hidden}
        narrowed = versions.narrow(
            body, 0, len(body), self._version, shown, rewrites.pass_unknown, served
        )
        if len(body) <= MAX_KEPT_VERSIONS_BYTES:
            self._body, self._settings, self._narrowed = body, settings, narrowed
        return narrowed
