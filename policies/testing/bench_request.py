"""Requests and replies whose fields a test sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.api import Peer
from policies.hooks import ASKED_ALL
from wire.apis import ApiKey
from wire.fetch import read_head
from wire.produce import ProduceWalker
from wire.request_names import NamesReader, read_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.api import Verdict
    from policies.hooks import ChainPosition, Hooks
    from wire.apis import Api
    from wire.fetch import FetchHead
    from wire.request_names import RequestNames


BENCH_PEER = Peer(session_id=1, host="127.0.0.1", port=50000, client_id="bench")
"""The client of a bench, unless a test has another."""


@dataclass
class BenchRequest(NamesReader):
    """A request whose fields a test sets."""

    api: Api
    exchange_id: int = 1
    node_id: int | None = 1
    size_bytes: int = 100
    acks: int | None = None
    head: ProduceWalker | FetchHead | None = None
    body: bytes | None = None
    names: RequestNames | None = None
    """The source of `topics`, `groups` and `topics_complete`."""
    asked: int = ASKED_ALL
    held: ChainPosition | None = None
    sent_body: bytes = b""
    """The body that the client sent, also if the policies need the header only."""
    hooks: Hooks | None = None
    """Those of the chain that was asked about the request."""
    peer: Peer = BENCH_PEER
    began_ms: int = 0

    @property
    def id(self) -> int:
        """Unique in the bench."""
        return self.exchange_id

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""
        return self.api.key

    @property
    def api_version(self) -> int:
        """The version of the request."""
        return self.api.version

    def read_head(self, body: bytes) -> None:
        """Set the head, as the core does for Need.HEAD. Raises WireError."""
        if self.api_key == ApiKey.PRODUCE:
            walker = ProduceWalker(self.api_version)
            walker.feed(body, 0, len(body))
            self.head = walker
        elif self.api_key == ApiKey.FETCH:
            self.head = read_head(body, 0, len(body), self.api_version)

    def read_names(self, topics: Mapping[bytes, str]) -> None:
        """Set topics and groups, as the core does for Need.TOPICS; `topics` are names by id. Raises WireError."""
        self.names = read_names(self.api, self.sent_body, 0, topics)


@dataclass
class BenchResponse:
    """A reply with this size in bytes and this throttle of the broker."""

    size_bytes: int = 100
    throttle_time_ms: int = 0


class Released(NamedTuple):
    """A request that was held, its final verdict and the time of it."""

    now_ms: int
    request: BenchRequest
    verdict: Verdict
