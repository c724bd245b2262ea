"""A request as policies see it: its client, its header, and what it tells of its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from wire.api_keys import ApiKey
from wire.asks import NamesReader
from wire.errors import BudgetError, ErrorCode, WireError

if TYPE_CHECKING:
    from policies.audit_facts import AuditFacts
    from wire.apis import Api
    from wire.authorization import Ask
    from wire.batch_heads import BatchHead
    from wire.codec import Message
    from wire.fetch import FetchHead, ShareFetchHead
    from wire.produce import ProduceWalker
    from wire.request_names import RequestNames
    from wire.topic_refs import TopicRef

ANONYMOUS = "ANONYMOUS"
"""Kafka's name for a client that has not authenticated."""

MAX_MESSAGE_ELEMENTS: Final = 1_000
"""Array elements and tags of a `message`: it is decoded in one step, in some 2 ms at most."""


class UnreadableRequestError(WireError):
    """The body of a request cannot be read as `request.message` or `request.batches`.

    A policy need not catch it: in `on_request` it becomes a Reject with `code`. An API whose error replies repeat items
    of the request has none then, and the connection closes. With `on_error: forward` the request is forwarded, and the
    error reported.
    """

    __module__ = "sluice"  # where others import it: a traceback says so

    def __init__(self, code: ErrorCode, words: str) -> None:
        super().__init__(code, words)  # as they were given, so that it can be pickled
        self.code = code
        self.words = words

    def __str__(self) -> str:
        """Return why it cannot be read."""
        return self.words


@dataclass(frozen=True, slots=True)
class Peer:
    """The facts about a client connection. A new fact makes a new Peer; a Peer never changes."""

    session_id: int
    host: str
    port: int
    node_id: int | None = None
    """The broker that this connection is for; None on the bootstrap port."""
    client_id: str = ""
    user: str = ANONYMOUS
    principal_source: str = "none"
    """The source of `user`: `none` (no authentication), `sasl` (the broker accepted it), `tls` (the client's
    certificate), `fixed` (the config sets it), or `unknown` (the broker accepted an authentication whose user cannot
    be read from the bytes)."""
    proof: str = ""
    """How the name was proved: `tls`, `sasl:SCRAM-SHA-512` (or another mechanism), `token` (checked by Sluice), `claim`
    (of a token that the broker accepted), `unsigned` (of a token that nobody has signed), `config` (a fixed name);
    empty for a client without a name."""
    groups: frozenset[str] = frozenset()
    """The groups that its token names, if Sluice has checked the token."""


class Request(Protocol):
    """One request, with as much as `needs` asked for. It is valid until `on_complete` returns."""

    @property
    def id(self) -> int:
        """A number that is unique in this process and the same in every hook of one request."""

    @property
    def peer(self) -> Peer:
        """The client, as it was known when the request began."""

    @property
    def began_ms(self) -> int:
        """When its first byte arrived, in ms since the epoch. In `on_complete` now_ms minus this is the whole delay."""

    @property
    def exchange_id(self) -> int:
        """A number that is unique in this session and the same in every hook of one request."""

    @property
    def api(self) -> Api:
        """The facts about this API and version."""

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""

    @property
    def api_version(self) -> int:
        """The version that the client chose."""

    @property
    def node_id(self) -> int | None:
        """The broker that the request is for; None on the bootstrap port."""

    @property
    def size_bytes(self) -> int:
        """Header and body in bytes, without the four bytes of length (as in Kafka)."""

    @property
    def acks(self) -> int | None:
        """-1, 0 or 1 for Produce, None for other APIs."""

    @property
    def head(self) -> ProduceWalker | FetchHead | ShareFetchHead | None:
        """The head of a Produce, Fetch or ShareFetch, with Need.HEAD or Need.BODY; else None.

        With Need.TOPICS that of a Fetch.
        """

    @property
    def names(self) -> RequestNames | None:
        """All that the next ones tell, for who judges every request; None where they raise LookupError."""

    @property
    def topics(self) -> tuple[TopicRef, ...]:
        """The topics that the request names, with Need.TOPICS, while `on_request` judges it.

        A TopicRef has `name`, `topic_id` and `partitions`. Its name is None if the request carries an id that no
        Metadata reply has named to a client of this process. Raises LookupError later, with a smaller need, and for
        an API that is not in RESOURCE_APIS.
        """

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that the request names, as `topics`."""

    @property
    def topics_complete(self) -> bool:
        """Whether the request is about no other topics than `topics`.

        False if it asks for all topics or for those of a pattern, if its version cannot be read, and if it continues a
        session of fetches (KIP-227: such a Fetch never reaches the broker) or of a share group.
        """

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional ids that the request names, as `topics`."""

    @property
    def acts(self) -> tuple[str, ...]:
        """The acts on the cluster that the request asks for (`alter-configs`), as `topics`."""

    @property
    def created(self) -> tuple[str, ...]:
        """Those of `topics` that the request creates, or lets the broker create if they are missing."""

    @property
    def has_pattern(self) -> bool:
        """Whether the request selects topics by a regular expression, which the broker resolves."""

    @property
    def asks(self) -> tuple[Ask, ...]:
        """The rights that a Kafka broker with an authorizer would demand for the request, as `topics`.

        They are in the order in which a broker checks them, each once, and made when they are first read. The requests
        of an API that is not in RESOURCE_APIS ask for nothing.
        """

    @property
    def body(self) -> bytes | None:
        """The whole body, with Need.BODY or more, until the verdict; else None."""

    @property
    def message(self) -> Message:
        """The typed message of the body, with Need.BODY or more, until the verdict: see `sluice.messages`.

        It is decoded when it is first asked for. Raises UnreadableRequestError for a body that cannot be decoded, for
        a version that the codec does not know, and for more than 1,000 array elements and tags; LookupError with a
        smaller need, and later.
        """

    @property
    def batches(self) -> tuple[BatchHead, ...]:
        """The heads of the record batches of a Produce, as `message`; none for other APIs. Records are not read.

        A BatchHead has `magic`, `size_bytes`, `compression`, `records`, `first_timestamp_ms`, `max_timestamp_ms`,
        `producer_id`, `topic` (name or id) and `partition`. Raises UnreadableRequestError for a body that is not
        whole, and for more than 1,000 batches.
        """

    def tell_audit(self, facts: AuditFacts) -> None:
        """Add these facts to the request's line in the audit log, if it gets one; the last call counts."""


class BodyReader(NamesReader):
    """A request with a whole `body`: what is in it."""

    __slots__ = ()

    body: bytes | None
    decoded: Message | None
    """The message, once it was asked for; it goes when the body goes."""

    def tell_audit(self, facts: AuditFacts) -> None:
        """Do nothing: there is no audit log."""

    @property
    def message(self) -> Message:
        """Return `Request.message`."""
        body = self._whole_body()
        if self.decoded is None:
            self.decoded = _decoded(self.api, body)  # type: ignore[misc] # a subclass has the slot
        return self.decoded

    @property
    def batches(self) -> tuple[BatchHead, ...]:
        """Return `Request.batches`."""
        body = self._whole_body()
        if self.api.key != ApiKey.PRODUCE:
            return ()
        from wire.batch_heads import read_batch_heads  # noqa: PLC0415 - a Sluice without it does not keep it

        try:
            return tuple(read_batch_heads(body, self.api.version))
        except WireError as error:
            raise UnreadableRequestError(ErrorCode.INVALID_RECORD, str(error)) from error

    def _whole_body(self) -> bytes:
        body = self.body
        if body is None:
            raise LookupError("the body of a request is there with Need.BODY, until the verdict")
        return body


def _decoded(api: Api, body: bytes) -> Message:
    from wire import codec  # noqa: PLC0415 - a Sluice without it does not keep it

    if not codec.is_known(api):
        words = f"{api.name} v{api.version} cannot be decoded"
        raise UnreadableRequestError(ErrorCode.UNSUPPORTED_VERSION, words)
    try:
        return codec.decode_request(api, body, MAX_MESSAGE_ELEMENTS)
    except BudgetError as error:
        words = f"{api.name} has more than {MAX_MESSAGE_ELEMENTS} array elements and tags"
        raise UnreadableRequestError(ErrorCode.INVALID_REQUEST, words) from error
    except WireError as error:
        words = f"{api.name} v{api.version} cannot be decoded"
        raise UnreadableRequestError(ErrorCode.INVALID_REQUEST, words) from error
