"""`records`: which record batches producers may send.

    - use: records
      config:
        who: ['guest-*']                # whom the entry is about; default: every client
        max_batch_bytes: 1048576
        max_records: 10000
        compression: [lz4, zstd]        # uncompressed batches below compression_min_bytes pass
        max_age_ms: 604800000
        max_ahead_ms: 3600000

It judges by the heads of the batches. Records are neither read nor decompressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from policies.api import (
    FORWARD,
    Forward,
    Need,
    Policy,
    PolicyConfigError,
    Reject,
)
from policies.crowd import Crowd
from policies.verdicts import short_repr
from policies.who_settings import Teams, Who, claim_hints
from wire.apis import ApiKey
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.api import Host, Peer, Request
    from wire.batch_heads import BatchHead

MAGIC: Final = 2
_INT32 = msgspec.Meta(ge=1, le=0x7FFF_FFFF)
_TIME = msgspec.Meta(ge=0, le=1 << 40)


class RecordRulesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every setting is optional; one that is absent limits nothing."""

    who: tuple[Who, ...] = ()
    """The producers that are limited, as in `access`. Empty: every client, also without authentication."""
    teams: Teams = msgspec.field(default_factory=dict)
    """Members of the teams in `who`."""
    max_batch_bytes: Annotated[int, _INT32] | None = None
    """The largest batch as it is sent, so compressed."""
    max_records: Annotated[int, _INT32] | None = None
    """The most records of a batch."""
    compression: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = ()
    """The codecs that are allowed; `none` is an uncompressed batch. Empty: all."""
    compression_min_bytes: Annotated[int, msgspec.Meta(ge=0, le=0x7FFF_FFFF)] = 1_024
    """Uncompressed batches below this size are always allowed: clients do not compress a batch that would grow."""
    max_age_ms: Annotated[int, _TIME] | None = None
    """How far the timestamp of a batch's first record may lie in the past."""
    max_ahead_ms: Annotated[int, _TIME] | None = None
    """How far the latest timestamp of a batch may lie in the future."""


class RecordRules(Policy):
    """Refuses each Produce with a batch that breaks a rule."""

    Config = RecordRulesConfig
    needs = Need.BODY

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, RecordRulesConfig):
            raise PolicyConfigError("", f"expected a RecordRulesConfig, got {short_repr(config)}")
        self._config = config
        self._who = Crowd(config.who, config.teams) if config.who else None
        default = RecordRulesConfig(
            who=config.who, teams=config.teams, compression_min_bytes=config.compression_min_bytes
        )
        self.apis = frozenset() if config == default else frozenset({ApiKey.PRODUCE})
        self._refused = host.counter("refused_batches", "Batches by broken rule.", ["rule"])

    def hints(self) -> Iterable[str]:
        """Return texts about producers that are found by what they claim."""
        return claim_hints(self._config.who, self._config.teams)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Return FORWARD, or a Reject with the first broken rule."""
        if self._who is not None and not self._who.has(peer):
            return FORWARD
        for head in request.batches:
            broken = self._broken_rule(head, now_ms)
            if broken is not None:
                rule, code, message = broken
                self._refused.add(1, rule)
                return Reject(code, message=message)
        return FORWARD

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Forget the connection."""
        if self._who is not None:
            self._who.forget(peer)

    def _broken_rule(self, head: BatchHead, now_ms: int) -> tuple[str, ErrorCode, str] | None:
        config = self._config
        if head.magic != MAGIC:
            words = f"a batch has format {head.magic}, expected {MAGIC}"
            return "format", ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, words
        size, most = head.size_bytes, config.max_batch_bytes
        if most is not None and size > most:
            words = f"a batch has {size} bytes, at most {most} are allowed"
            return "max_batch_bytes", ErrorCode.MESSAGE_TOO_LARGE, words
        most = config.max_records
        if most is not None and head.records > most:
            words = f"a batch has {head.records} records, at most {most} are allowed"
            return "max_records", ErrorCode.POLICY_VIOLATION, words
        is_small = head.compression == "none" and size < config.compression_min_bytes
        if config.compression and head.compression not in config.compression and not is_small:
            allowed = ", ".join(config.compression)
            words = (
                f"a batch has the compression {head.compression or 'unknown'}, allowed: {allowed}"
            )
            return "compression", ErrorCode.POLICY_VIOLATION, words
        age_ms = now_ms - head.first_timestamp_ms
        if (
            config.max_age_ms is not None
            and head.first_timestamp_ms >= 0
            and age_ms > config.max_age_ms
        ):
            words = f"a timestamp is {age_ms} ms old, at most {config.max_age_ms} are allowed"
            return "max_age_ms", ErrorCode.INVALID_TIMESTAMP, words
        ahead_ms = head.max_timestamp_ms - now_ms
        if config.max_ahead_ms is not None and ahead_ms > config.max_ahead_ms:
            words = f"a timestamp is {ahead_ms} ms ahead, at most {config.max_ahead_ms} are allowed"
            return "max_ahead_ms", ErrorCode.INVALID_TIMESTAMP, words
        return None
