"""Requests and replies whose fields a test sets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.api import Forward, Peer, Reject, Respond, Throttle
from policies.denial import Deny
from policies.hooks import ASKED_ALL
from policies.requests import BodyReader
from policies.responses import PolicyRefusal
from policies.testing.message_builder import response_body
from wire.apis import ApiKey
from wire.errors import WireError
from wire.fetch import read_head, read_share_head
from wire.produce import ProduceWalker
from wire.reply_errors import ReplyErrors
from wire.request_names import read_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.api import Verdict
    from policies.audit_facts import AuditFacts
    from policies.hooks import ChainPosition, Hooks
    from policies.messages import Fields
    from wire.apis import Api
    from wire.codec import Message
    from wire.fetch import FetchHead, ShareFetchHead
    from wire.request_names import RequestNames


BENCH_PEER = Peer(session_id=1, host="127.0.0.1", port=50000, client_id="bench")
"""The client of a bench, unless a test has another."""


@dataclass
class BenchRequest(BodyReader):
    """A request whose fields a test sets."""

    api: Api
    exchange_id: int = 1
    node_id: int | None = 1
    size_bytes: int = 100
    acks: int | None = None
    head: ProduceWalker | FetchHead | ShareFetchHead | None = None
    body: bytes | None = None
    decoded: Message | None = None
    names: RequestNames | None = None
    """The source of `topics`, `groups` and `topics_complete`."""
    asked_up_to: int = ASKED_ALL
    held: ChainPosition | None = None
    sent_body: bytes = b""
    """The body that the client sent, also if the policies need the header only."""
    hooks: Hooks | None = None
    """Those of the chain that was asked about the request."""
    peer: Peer = BENCH_PEER
    began_ms: int = 0
    audited: AuditFacts | None = None
    """The facts that a policy has told the audit log."""
    refusals: tuple[PolicyRefusal, ...] = ()
    """Those of the policies that were asked."""

    def tell_audit(self, facts: AuditFacts) -> None:
        """Keep the facts in `audited`."""
        self.audited = facts

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
        elif self.api_key == ApiKey.SHARE_FETCH:
            self.head = read_share_head(body, 0, len(body))

    def read_names(self, topics: Mapping[bytes, str]) -> None:
        """Set topics and groups, as the core does for Need.TOPICS; `topics` are names by id. Raises WireError."""
        self.names = read_names(self.api, self.sent_body, 0, len(self.sent_body), topics)


@dataclass
class BenchResponse:
    """A reply with this size in bytes and this throttle of the broker; with a body if a policy hears it."""

    size_bytes: int = 100
    throttle_time_ms: int = 0
    body: bytes | None = None
    api: Api | None = None
    topics: Mapping[bytes, str] = field(default_factory=dict)
    """Names by id."""

    @property
    def errors(self) -> ReplyErrors | None:
        """The error codes in the body; None without a body."""
        if self.body is None or self.api is None:
            return None
        return ReplyErrors(self.api, self.body, 0, len(self.body), self.topics)

    def replace(self, body: bytes) -> None:
        """Use this body from now on, as the core does."""
        header_bytes = self.size_bytes - len(self.body or b"")
        self.body, self.size_bytes = body, header_bytes + len(body)


class Released(NamedTuple):
    """A request that was held, its final verdict and the time of it."""

    now_ms: int
    request: BenchRequest
    verdict: Verdict


def refusals(request: BenchRequest, verdict: Verdict) -> Iterator[PolicyRefusal]:
    """Yield what refuses the request, or a part of it, by this verdict of the chain."""
    asked = request.hooks.with_on_request if request.hooks is not None else ()
    name = asked[min(request.asked_up_to, len(asked)) - 1] if asked else ""
    ends = verdict.forward if isinstance(verdict, Throttle) else verdict
    refuses = ends.refuses if isinstance(ends, Respond) else ends
    if isinstance(refuses, Reject):
        yield PolicyRefusal(name, refuses.code, refuses.message)
    denials = ends.denials if isinstance(ends, Forward) else (ends,)
    for denial in denials:
        if isinstance(denial, Deny):
            for code in sorted(denial.used_codes):
                yield PolicyRefusal(denial.policy or name, code, denial.message)


def response_to(
    request: BenchRequest,
    size_bytes: int | None,
    fields: Fields | None,
    body: bytes | None,
    topics: Mapping[bytes, str],
    *,
    heard: bool,
) -> BenchResponse:
    """Return the reply with these fields, or this body, or neither: a message of zeros, and none if it has a size."""
    api = request.api
    if body is None and fields is not None:
        body = response_body(api, fields)
    elif body is None and heard and size_bytes is None:
        with suppress(WireError):  # the codec does not know the version
            body = response_body(api, {})
    if size_bytes is None:
        size_bytes = 100 if body is None else 4 + api.response_header_version + len(body)
    return BenchResponse(size_bytes, 0, body if heard else None, api, topics)
