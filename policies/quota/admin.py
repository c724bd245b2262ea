"""Quotas over the Kafka protocol: DescribeClientQuotas and AlterClientQuotas (KIP-546).

- `describe` and `alter` have the rules; this module decides who may do what, and applies changes. A change is saved
  before it is applied, and if saving fails nothing has changed.
- With `observes` nothing is saved or applied. The request is forwarded as if this policy did not exist. The answer is
  still made, because it is what the policy would have decided.
- Kafka's other quotas belong to the broker. With `forward_other_keys` requests that are only about them are forwarded;
  a request about both is refused, because half of it could fail after the other half was applied.
- Every client may describe. But if `admins` names other users, ANONYMOUS may not: before authentication a broker
  disconnects clients that send such requests.
- Equal requests get the cached reply until a quota changes; for usage the cache lasts a quarter of a second, or longer
  with very many buckets. So a client that asks in a loop costs little.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from policies.api import ANONYMOUS, FORWARD, Reject, Respond
from policies.denial import MAX_MESSAGE_CHARS
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

    from policies.api import Forward, Peer, Request
    from policies.crowd import Crowd
    from policies.quota.alter import AlterResult, Change
    from policies.quota.entity import ClientQuotas, QuotaLimit
    from policies.quota.sensors import BucketMetrics
    from wire.apis import Api
    from wire.client_quotas import Alteration, AlterRequest, Entity

    Answer = Forward | Respond | Reject

USAGE_CACHE_MS: Final = 250
USAGE_ROWS_PER_MS: Final = 10
"""The usage cache lasts a millisecond per this many rows; making them takes a twentieth of that time."""
MAX_CACHED_REPLIES: Final = 16
MAX_QUESTION_BYTES: Final = 1024
"""A reply to a longer request is not cached."""

NO_IP_QUOTAS: Final = (
    "Sluice keeps no quotas by ip; "
    "its setting forward_other_keys forwards such requests to the broker"
)
NOT_AUTHENTICATED: Final = "Clients that have not authenticated may not describe quotas here"
MIXED_KEYS: Final = (
    "Some of these keys are Sluice's (request_rate, producer_byte_rate, consumer_byte_rate), others the "
    "broker's: alter them in two requests"
)

_OURS: Final = "ours"
_BROKERS: Final = "the broker's"

APIS: Final = frozenset({ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS})
"""The APIs that `QuotaAdmin` answers; it needs their bodies."""


class AlterableQuotas(Protocol):
    """The part of the quota policy that QuotaAdmin uses."""

    @property
    def quotas(self) -> ClientQuotas:
        """The limits; read only."""

    def usage(self, now_ms: int) -> Iterable[BucketMetrics]:
        """Return the buckets in use."""

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        """Save the new overrides, then apply them. Raises OSError if saving fails; then nothing has changed."""


class QuotaAdminSettings(NamedTuple):
    """The settings of the policy that this module uses."""

    admins: Crowd
    replicas: int
    forward_other_keys: bool
    name: str
    """Name of the policy's entry in the config, for messages."""
    observes: bool = False
    """Whether the entry's mode is `observe`: then an alteration changes nothing here."""


class QuotaAdmin:
    """Answers both APIs for the quotas of one policy."""

    def __init__(self, policy: AlterableQuotas, settings: QuotaAdminSettings) -> None:
        self._policy = policy
        self._settings = settings
        self._cache: dict[tuple[int, bytes], _CachedReply] = {}
        self._grouped: list[tuple[Entity, list[QuotaLimit]]] = []
        self._grouped_rev = -1
        self._rows: list[BucketMetrics] = []
        self._rows_until_ms = 0

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Answer:
        """Return the answer to a request of one of `APIS`; FORWARD if only the broker can answer it."""
        body = request.body or b""
        try:
            if request.api_key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
                return self._describe(request.api, body, peer, now_ms)
            return self._alter(request.api, body, peer, now_ms)
        except WireError:  # a malformed or too long request
            return Reject(ErrorCode.INVALID_REQUEST, close=True)

    def _describe(self, api: Api, body: bytes, peer: Peer, now_ms: int) -> Answer:
        admins = self._settings.admins
        may = peer.user != ANONYMOUS or not admins or admins.has(peer)
        question = api.version, body
        kept = self._cache.get(question)
        if may and kept and kept.rev == self._policy.quotas.rev and now_ms < kept.until_ms:
            return kept.reply
        components, strict = read_describe(api, body)
        asked = parse_filter(components, strict=strict)
        if isinstance(asked, InvalidFilter):
            return Respond(describe_reply(api, None, *asked))
        if any(kind == IP for kind, _, _ in asked.conditions):
            if self._settings.forward_other_keys:
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
            self._cache[question] = _CachedReply(self._policy.quotas.rev, until_ms, reply)
        return reply

    def _groups(self) -> list[tuple[Entity, list[QuotaLimit]]]:
        """Return the limits by entity, grouped once for each revision of the quotas."""
        quotas = self._policy.quotas
        if self._grouped_rev != quotas.rev:
            self._grouped, self._grouped_rev = group_by_entity(quotas), quotas.rev
        return self._grouped

    def _usage(self, now_ms: int) -> list[BucketMetrics]:
        """Return the buckets in use, from the cache if that is new enough: listing many blocks other clients."""
        if now_ms >= self._rows_until_ms:
            self._rows = list(self._policy.usage(now_ms))
            self._rows_until_ms = now_ms + max(USAGE_CACHE_MS, len(self._rows) // USAGE_ROWS_PER_MS)
        return self._rows

    def _alter(self, api: Api, body: bytes, peer: Peer, now_ms: int) -> Answer:
        asked = read_alter(api, body)
        if self._settings.forward_other_keys:
            whose = {whose for entry in asked.entries for whose in _whose(entry)}
            if whose == {_BROKERS}:
                return FORWARD
            if _BROKERS in whose:
                return _refuse_all(api, asked, ErrorCode.INVALID_REQUEST, MIXED_KEYS)
        refusal = self._refusal(peer)
        if refusal is not None:
            return _refuse_all(api, asked, *refusal)
        judged = evaluate(asked.entries, self._policy.quotas)
        code, message = ErrorCode.NONE, None
        changes = [change for each in judged for change in each.changes]
        if changes and not (asked.validate_only or self._settings.observes):
            try:
                self._policy.change(changes, now_ms)
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
        """Return what the sender of an applied change should know: that the limit holds for no client."""
        for entity, key, value in judged.changes:
            winner = self._policy.quotas.maybe_outranked(entity, key)
            if value is not None and winner is not None:
                return f"{key} is set, but {outranked_warning(key, winner)}"
        return None

    def _refusal(self, peer: Peer) -> tuple[ErrorCode, str] | None:
        """Return why this client may not alter quotas here."""
        settings = self._settings
        if not settings.admins.has(peer):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (
                f"{peer.user} may not alter quotas: the setting admins of Sluice's policy {settings.name} "
                "does not name this principal"
            )
        if settings.replicas > 1:
            return ErrorCode.POLICY_VIOLATION, (
                f"This Sluice is one of {settings.replicas} replicas, and a live change would reach only "
                "one of them: change the quotas in the config file of all"
            )
        return None


class _CachedReply(NamedTuple):
    """A reply that is valid for the quotas' revision `rev`, before `until_ms`."""

    rev: int
    until_ms: float
    reply: Respond


def _whose(entry: Alteration) -> Iterator[str]:
    """Yield for each key of an alteration whether it is Sluice's or the broker's."""
    by_ip = any(kind == IP for kind, _ in entry.entity)
    for key, _ in entry.ops:
        yield _BROKERS if by_ip or key not in KEYS else _OURS


def _refuse_all(api: Api, asked: AlterRequest, code: ErrorCode, message: str) -> Respond:
    answers = [AlteredEntity(entry.entity, code, message) for entry in asked.entries]
    refuses = Reject(code, message=message[:MAX_MESSAGE_CHARS])
    return Respond(alter_reply(api, answers), refuses)
