"""Quotas over the Kafka protocol itself: DescribeClientQuotas and AlterClientQuotas (KIP-546).

- The rules are in `describe` and `alter`; here is who may do what, and that it happens: what holds is
  saved before it is applied, and if saving fails nothing has changed.
- With `observes` nothing is saved or applied. The request goes on to the broker, as if this policy were not there; the
  answer is made all the same, for it is what the policy would have done.
- Kafka's other quotas are the broker's. With `forward_other_keys` requests about them alone go on to it;
  one about both is refused, because half of it could fail after the other half was done.
- Everyone may describe, but where `admins` names others, whoever is ANONYMOUS may not: before a client
  has authenticated nothing of it reaches the broker, which would have hung up.
- The same question gets the reply that was made before, until a quota changes; of usage, for a quarter
  of a second or, of very many buckets, longer. So whoever asks in a loop costs others next to nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from policies.api import ANONYMOUS, FORWARD, Reject, Respond
from policies.quota.alter import evaluate
from policies.quota.describe import (
    USAGE,
    InvalidFilter,
    describe_quotas,
    describe_usage,
    group_by_entity,
    parse_filter,
)
from policies.quota.entity import KEYS, outranked_warning
from policies.verdicts import MAX_MESSAGE_CHARS
from wire.apis import ApiKey
from wire.client_quotas import (
    IP,
    AlteredEntity,
    alter_reply,
    describe_reply,
    read_alter,
    read_describe,
)
from wire.errors import ErrorCode, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.api import Forward, Request
    from policies.quota.alter import AlterResult, Change
    from policies.quota.entity import ClientQuotas, QuotaLimit
    from policies.quota.sensors import BucketMetrics
    from wire.apis import Api
    from wire.client_quotas import Alteration, AlterRequest, Entity

    Answer = Forward | Respond | Reject

USAGE_CACHE_MS: Final = 250
USAGE_ROWS_PER_MS: Final = 10
"""For each so many rows they are kept a millisecond longer; ten take a twentieth of that to make."""
MAX_CACHED_REPLIES: Final = 16
MAX_QUESTION_BYTES: Final = 1024
"""A reply to a longer question is not kept."""

NO_IP_QUOTAS: Final = (
    "Sluice keeps no quotas by ip; "
    "its setting forward_other_keys sends such requests on to the broker"
)
NOT_AUTHENTICATED: Final = "Clients that have not authenticated may not describe quotas here"
MIXED_KEYS: Final = (
    "Some of these keys are Sluice's (request_rate, producer_byte_rate, consumer_byte_rate), others the "
    "broker's: alter them in two requests"
)

_OURS: Final = "ours"
_BROKERS: Final = "the broker's"

APIS: Final = frozenset({ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS})
"""What `QuotaAdmin` answers; it needs their bodies."""


class AlterableQuotas(Protocol):
    """What is asked of the policy."""

    @property
    def quotas(self) -> ClientQuotas:
        """The limits; read only."""

    def usage(self, now_ms: int) -> Iterable[BucketMetrics]:
        """The buckets in use."""

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        """Save the overrides as they will be (OSError: nothing has changed), then change them."""


class QuotaAdminSettings(NamedTuple):
    """The policy's settings that this file goes by."""

    admins: frozenset[str]
    replicas: int
    forward_other_keys: bool
    name: str
    """Of the policy's entry in the config, for messages."""
    observes: bool = False
    """Whether the entry's mode is `observe`: then an alteration changes nothing here."""


class QuotaAdmin:
    """Answers both APIs for one book of quotas."""

    def __init__(self, book: AlterableQuotas, rules: QuotaAdminSettings) -> None:
        self._book = book
        self._rules = rules
        self._cache: dict[tuple[int, bytes], _CachedReply] = {}
        self._grouped: list[tuple[Entity, list[QuotaLimit]]] = []
        self._grouped_rev = -1
        self._rows: list[BucketMetrics] = []
        self._rows_until_ms = 0

    def on_request(self, request: Request, user: str, now_ms: int) -> Answer:
        """The answer to a request of one of `APIS`; FORWARD for what is the broker's alone."""
        body = request.body or b""
        try:
            if request.api_key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
                return self._describe(request.api, body, user, now_ms)
            return self._alter(request.api, body, user, now_ms)
        except WireError:  # the client's fault, or a request without end
            return Reject(ErrorCode.INVALID_REQUEST, close=True)

    def _describe(self, api: Api, body: bytes, user: str, now_ms: int) -> Answer:
        admins = self._rules.admins
        may = user != ANONYMOUS or not admins or ANONYMOUS in admins
        question = api.version, body
        kept = self._cache.get(question)
        if may and kept and kept.rev == self._book.quotas.rev and now_ms < kept.until_ms:
            return kept.reply
        components, strict = read_describe(api, body)
        asked = parse_filter(components, strict=strict)
        if isinstance(asked, InvalidFilter):
            return Respond(describe_reply(api, None, *asked))
        if any(kind == IP for kind, _, _ in asked.conditions):
            if self._rules.forward_other_keys:
                return FORWARD
            return Respond(describe_reply(api, None, ErrorCode.UNSUPPORTED_VERSION, NO_IP_QUOTAS))
        if not may:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            body = describe_reply(api, None, code, NOT_AUTHENTICATED)
            return Respond(body, Reject(code, message=NOT_AUTHENTICATED))
        message = None
        until_ms = math.inf
        if asked.view == USAGE:
            entries, message = describe_usage(self._usage(now_ms), asked)
            until_ms = self._rows_until_ms
        else:
            entries = describe_quotas(self._groups(), asked)
        reply = Respond(describe_reply(api, entries, ErrorCode.NONE, message))
        if len(self._cache) == MAX_CACHED_REPLIES:
            self._cache.clear()
        if len(body) <= MAX_QUESTION_BYTES:
            self._cache[question] = _CachedReply(self._book.quotas.rev, until_ms, reply)
        return reply

    def _groups(self) -> list[tuple[Entity, list[QuotaLimit]]]:
        """The book, put together once for each of its revisions."""
        quotas = self._book.quotas
        if self._grouped_rev != quotas.rev:
            self._grouped, self._grouped_rev = group_by_entity(quotas), quotas.rev
        return self._grouped

    def _usage(self, now_ms: int) -> list[BucketMetrics]:
        """The buckets, young enough. Where there are many they are older: counting them holds up others."""
        if now_ms >= self._rows_until_ms:
            self._rows = list(self._book.usage(now_ms))
            self._rows_until_ms = now_ms + max(USAGE_CACHE_MS, len(self._rows) // USAGE_ROWS_PER_MS)
        return self._rows

    def _alter(self, api: Api, body: bytes, user: str, now_ms: int) -> Answer:
        asked = read_alter(api, body)
        if self._rules.forward_other_keys:
            whose = {whose for entry in asked.entries for whose in _whose(entry)}
            if whose == {_BROKERS}:
                return FORWARD
            if _BROKERS in whose:
                return _refuse_all(api, asked, ErrorCode.INVALID_REQUEST, MIXED_KEYS)
        refusal = self._refusal(user)
        if refusal is not None:
            return _refuse_all(api, asked, *refusal)
        judged = evaluate(asked.entries, self._book.quotas)
        code, message = ErrorCode.NONE, None
        changes = [change for each in judged for change in each.changes]
        if changes and not (asked.validate_only or self._rules.observes):
            try:
                self._book.change(changes, now_ms)
            except OSError as error:
                code = ErrorCode.UNKNOWN_SERVER_ERROR
                message = f"The change could not be saved, so it was not made: {error.strerror}"
        answers = [
            AlteredEntity(each.entity, code, message or self._maybe_warning(each))
            if each.message is None
            else AlteredEntity(each.entity, ErrorCode.INVALID_REQUEST, each.message)
            for each in judged
        ]
        return Respond(alter_reply(api, answers))

    def _maybe_warning(self, judged: AlterResult) -> str | None:
        """What the sender of a change should know although it was made: that it holds for no client."""
        for entity, key, value in judged.changes:
            winner = self._book.quotas.maybe_outranked(entity, key)
            if value is not None and winner is not None:
                return f"{key} is set, but {outranked_warning(key, winner)}"
        return None

    def _refusal(self, user: str) -> tuple[ErrorCode, str] | None:
        """Why this user may alter nothing here."""
        rules = self._rules
        if user not in rules.admins:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (
                f"{user} may not alter quotas: the setting admins of Sluice's policy {rules.name} "
                "does not name this principal"
            )
        if rules.replicas > 1:
            return ErrorCode.POLICY_VIOLATION, (
                f"This Sluice is one of {rules.replicas} replicas, and a live change would reach only "
                "one of them: change the quotas in the config file of all"
            )
        return None


class _CachedReply(NamedTuple):
    """A reply, good for the book's `rev`, before `until_ms`."""

    rev: int
    until_ms: float
    reply: Respond


def _whose(entry: Alteration) -> Iterator[str]:
    """Of each key of an alteration, whether it is ours or the broker's."""
    by_ip = any(kind == IP for kind, _ in entry.entity)
    for key, _ in entry.ops:
        yield _BROKERS if by_ip or key not in KEYS else _OURS


def _refuse_all(api: Api, asked: AlterRequest, code: ErrorCode, message: str) -> Respond:
    answers = [AlteredEntity(entry.entity, code, message) for entry in asked.entries]
    refuses = Reject(code, message=message[:MAX_MESSAGE_CHARS])
    return Respond(alter_reply(api, answers), refuses)
