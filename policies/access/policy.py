"""`access`: who may do what.

    - use: access
      config:
        teams: {billing: [svc-billing, svc-invoices]}
        rules:                            # in any order: a deny wins, else an allow, else the request is refused
          - who: [team:billing]
            topics: {billing.*: [read, write], orders: [read]}
            groups: {billing-*: [read]}
            transactions: {billing-*: [write]}
          - {who: [oncall], topics: {'*': [describe]}, cluster: [describe, move-partitions]}

Rules:
- What no rule allows is refused. An API or a version that `wire.authorization` does not know is not offered, and
  refused.
- Requests are judged as Kafka's authorizer does (`policies.access.judgement`), and replies show what it would
  (`policies.access.replies`).
- A client's rights are found once, and its names once for each revision of the rules. The usual Produce and Fetch
  costs one look for each topic.
- A change of the rules holds for all requests that come after it. A consumer's wait at the broker that began before
  ends within MAX_WAIT_MS, and so does its share session (`policies.access.share_sessions`).
- A client speaks for itself: `replicate`, which is for brokers, cannot be allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies import listings
from policies.access.books import NOTHING, Books
from policies.access.config import AccessConfig
from policies.access.creation import (
    FIRST_WITH_FLAG,
    forbidden_creations,
    without_creation,
)
from policies.access.existence import question_of, with_missing
from policies.access.judgement import Judgement, all_refusals, judge, judging
from policies.access.refusals import Denies, Refusals
from policies.access.replies import shown
from policies.access.rights import Rights
from policies.access.subscription import REFUSED, WORDS, has_pattern, shown_body
from policies.access.tokens import TOKEN_APIS, is_for_itself, own_tokens
from policies.api import (
    FORWARD,
    TOPIC_NAMES,
    Forward,
    Hold,
    Need,
    Patch,
    Policy,
    PolicyConfigError,
    Reject,
    Respond,
)
from policies.denial import Deny
from policies.verdicts import short_repr
from wire.apis import OFFERED, ApiKey
from wire.authorization import (
    AUTHORIZED,
    MAX_VERSIONS,
    RESOURCE_APIS,
    Operation,
    ResourceType,
    is_authorized,
)
from wire.errors import ErrorCode
from wire.fetch import FetchHead, head_offsets, read_share_session
from wire.primitives import INT32

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping

    from policies.access.books import Client
    from policies.api import Host, InTurns, Peer, Request, Response, Verdict
    from policies.denial import DenyKey
    from policies.responses import Replace
    from wire.authorization import Ask

MAX_WAIT_MS: Final = 1_000
"""How long a consumer's fetch may wait at the broker: the longest time that a right outlives its rule."""
_QUICK: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 1 << Operation.WRITE,
    ApiKey.FETCH: 1 << Operation.READ,
}
"""What a topic of these APIs needs; their usual requests are judged at first sight."""
_UNKNOWN: Final = Reject(ErrorCode.UNSUPPORTED_VERSION, message="access does not know this version")
_ASKS_NAMES: Final = Hold(
    5_000, TOPIC_NAMES, Reject(ErrorCode.UNKNOWN_TOPIC_ID, message="no broker names the topic")
)
"""Forbidden ids are told from those that no topic has."""
_MAX_DELAY_MS: Final = 5_000
"""How long a refusal waits for the broker to say which topics exist."""
_WORDS: Final = "no rule allows it"
_CREATES: Final = "Metadata below v4 would create the topic, which no rule allows"
_SHORT_WAIT: Final = INT32.pack(MAX_WAIT_MS)
_HEARD: Final = listings.FILTERED | {ApiKey.DESCRIBE_DELEGATION_TOKEN}
_NO_LOG_DIRS: Final = {
    version: bytes(8) if version < 2 else b"\0\0\0\0\1\0" for version in range(3)
}
"""Kafka refuses a DescribeLogDirs that has no place for a code by an empty list."""


class Access(Policy):
    """Refuses what no rule allows."""

    Config = AccessConfig
    apis = frozenset(OFFERED) - (AUTHORIZED - RESOURCE_APIS - _HEARD)
    response_apis = _HEARD
    hears_body = _HEARD
    needs = Need.TOPICS
    max_versions = MAX_VERSIONS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, AccessConfig):
            raise PolicyConfigError("", f"expected an AccessConfig, got {short_repr(config)}")
        self._hints = tuple(config.hints())
        grants = tuple(config.grants())
        self.books = Books(Rights(grants, config.teams))
        if host.observes:  # no reply is cut, so none is kept
            self.response_apis = self.hears_body = frozenset()
        self._brokers_create = config.auto_create_topics_enable
        self._denied = host.counter(
            "denied_access", "Requests and items of requests that no rule allowed.", ("kind",)
        )
        by_rule = host.counter(
            "denied_access_by_rule", "What was denied, by user and by the rule.", ("user", "rule")
        )
        self._refusals = Refusals(Denies(grants, config.teams), by_rule)

    def hints(self) -> Iterable[str]:
        """Return texts about names that prove nothing."""
        return self._hints

    def adopt(self, previous: Policy) -> None:
        """Take over the books. They are shared: the previous one judges by the new rules what it still hears of."""
        if isinstance(previous, Access):
            previous.books.rights = self.books.rights
            self.books = previous.books

    def prepare(self, request: Request, peer: Peer) -> Generator[None, None, None]:
        """Judge a large request in steps."""
        client = self.books.client(peer)
        if request.api_key in RESOURCE_APIS and is_authorized(request.api):
            client.prepared = None
            rights = client.rights  # a reply may be judged by newer ones between two steps
            judgement = yield from judging(request, client.subject)
            client.prepared = request.id, rights, judgement

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Refuse what the client may not do."""
        books = self.books
        client = books.clients.get(peer.session_id)
        if client is None or client.peer is not peer or client.rights is not books.rights:
            client = books.client(peer)
        needed = _QUICK.get(request.api_key)
        names = request.names
        if (
            needed is not None
            and names is not None
            and names.topics_complete
            and not names.transactional_ids
            and not names.acts
        ):
            masks = client.subject.topics
            for topic in names.topics:
                if not masks.get(topic.name, 0) & needed:
                    break
            else:
                patches = self._short_wait(request)
                return Forward(patches) if patches else FORWARD
        return self._judge(request, client)

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Replace | InTurns:
        """Show of a listing what the client may see."""
        if response.body is None:  # too large: without `on_error: forward` the connection ends
            return FORWARD
        client = self.books.client(peer)
        if request.api_key == ApiKey.DESCRIBE_DELEGATION_TOKEN:
            if "tokens" in client.subject.acts:
                return FORWARD
            return own_tokens(request, response, peer.user)
        asked = client.asked.pop(request.id, NOTHING)
        return shown(request, response, client.subject, self.host, asked)

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Forget the client."""
        self.books.forget(peer)

    def on_refusal(self, peer: Peer, asks: Collection[Ask]) -> None:
        """Count what a client asked for and may not do: the one place that learns of every refusal."""
        counts: dict[ResourceType, int] = {}
        for ask in asks:
            counts[ask.kind] = counts.get(ask.kind, 0) + 1
        for kind, count in counts.items():
            self._denied.add(count, kind.name.lower())
        self._refusals.count(peer, asks)

    def _judge(self, request: Request, client: Client) -> Verdict:
        peer, subject = client.peer, client.subject
        if not is_authorized(request.api):
            self._denied.add(1, "version")
            return _UNKNOWN
        key = request.api_key
        if key not in RESOURCE_APIS or (
            key in TOKEN_APIS
            and not self.host.speaks_as_itself()
            and is_for_itself(request, peer.user)
        ):
            return FORWARD
        if self.host.observes:
            return self._observed(request, client)
        if self._needs_names(request, client):
            client.prepared = None
            return _ASKS_NAMES
        answer = client.answer_to(request)
        whole, refused = client.take_prepared(request) or judge(request, subject)
        if whole is not None:
            self.on_refusal(peer, (whole,))
            return _refusal(request, whole)
        codes: dict[DenyKey, int] = {key: ask.code for key, ask in refused.items()}
        if answer is not None:  # what is refused was counted before
            codes = with_missing(request, subject, codes, answer.found) if codes else codes
        elif refused:
            self.on_refusal(peer, refused.values())
            question = question_of(request, subject, refused)
            if question is not None:
                client.question = request.id, question
                client.prepared = request.id, client.rights, Judgement(None, refused)
                deny = Deny(codes, _WORDS, self.host.name)
                return Hold(_MAX_DELAY_MS, question, Forward(denials=(deny,)))
        words = _WORDS
        patches: tuple[Patch, ...] = ()
        if key == ApiKey.METADATA:
            creations = forbidden_creations(request, subject) - codes.keys()
            cannot_say = request.api_version < FIRST_WITH_FLAG
            if creations and cannot_say and self._brokers_create:
                codes |= dict.fromkeys(creations, ErrorCode.UNSUPPORTED_VERSION)
                words = _CREATES
            else:
                patches = without_creation(request) if creations and not cannot_say else ()
                by_id = any(topic.topic_id is not None for topic in request.topics)
                client.ask(request.id, creations if self._brokers_create else (), by_id=by_id)
        elif has_pattern(request):
            return self._subscribe(request, client)
        elif key == ApiKey.FETCH:
            patches = self._short_wait(request)
        elif key == ApiKey.SHARE_FETCH:
            code, patches = self._share_fetch(request, client, codes)
            if code:
                return Reject(code, message="the rules have changed")
        if not codes:
            return Forward(patches) if patches else FORWARD
        deny = Deny(codes, words, self.host.name)
        return Forward(patches, denials=(deny,)) if patches else deny

    def _subscribe(self, request: Request, client: Client) -> Verdict:
        body = shown_body(request, client.subject)
        if body is None:
            self.on_refusal(client.peer, (REFUSED,))
            return Reject(REFUSED.code, message=WORDS)
        return FORWARD if body == request.body else Forward(body=body)

    def _observed(self, request: Request, client: Client) -> Verdict:
        """Return what is only reported: all that the client may not do, and why the first."""
        asks = all_refusals(request, client.subject)
        if not asks and has_pattern(request) and shown_body(request, client.subject) is None:
            asks = (REFUSED,)
        if not asks:
            return FORWARD
        self.on_refusal(client.peer, asks)
        words = self._refusals.words(client.peer, asks[0])
        return Deny({ask: ask.code for ask in asks}, words, self.host.name)

    def _needs_names(self, request: Request, client: Client) -> bool:
        """Return whether Sluice must ask what the topics in a request are called; once for each request."""
        if request.api_key == ApiKey.METADATA:
            return False
        if client.named == request.id:
            return False
        for topic in request.topics:
            if topic.name is None and topic.topic_id is not None and any(topic.topic_id):
                client.named = request.id
                return True
        return False

    def _short_wait(self, request: Request) -> tuple[Patch, ...]:
        head = request.head
        if not isinstance(head, FetchHead) or head.max_wait_ms <= MAX_WAIT_MS:
            return ()
        if not self.host.observes:
            return (Patch(head_offsets(request.api_version).max_wait_ms, _SHORT_WAIT),)
        return ()

    def _share_fetch(
        self, request: Request, client: Client, denied: Mapping[DenyKey, int]
    ) -> tuple[ErrorCode, tuple[Patch, ...]]:
        """Return the code that ends the session of a ShareFetch, or NONE, and the patch of its wait."""
        session = read_share_session(request.body or b"")
        names = [topic.name for topic in request.topics if topic.name is not None]
        reads = 1 << Operation.READ
        subject = client.subject
        code = self.books.share_sessions.on_fetch(
            client.peer.session_id,
            ("".join(request.groups), session.member),
            session.epoch,
            (name for name in names if name not in denied),
            lambda name: bool(subject.topic(name) & reads),
            subject,
        )
        if session.max_wait_ms <= MAX_WAIT_MS:
            return code, ()
        return code, (Patch(session.max_wait_at, _SHORT_WAIT),)


def _refusal(request: Request, ask: Ask) -> Reject | Respond:
    reject = Reject(ask.code, message=_WORDS)
    if request.api_key == ApiKey.DESCRIBE_LOG_DIRS and request.api_version in _NO_LOG_DIRS:
        return Respond(_NO_LOG_DIRS[request.api_version], reject)
    return reject
