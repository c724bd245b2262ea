"""`limits`: what nobody behind this proxy may do.

    - use: limits
      config:
        forbidden_apis: [DeleteTopics]      # answered with POLICY_VIOLATION, in the API's own shape
        request_max_bytes: 1048576          # larger: MESSAGE_TOO_LARGE (Produce), else POLICY_VIOLATION
        required_acks: all                  # a Produce with less: INVALID_REQUIRED_ACKS; acks=0 closes

It judges by the header alone, so what it lets through streams as if it were not there.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from policies.api import FORWARD, Forward, Host, Peer, Policy, PolicyConfigError, Reject, Request
from wire.apis import ApiKey, key_of
from wire.errors import ErrorCode

_NEVER_FORBIDDEN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
_ACKS = {"all": frozenset({-1}), "1": frozenset({-1, 1})}


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting is optional; one that is absent limits nothing."""

    forbidden_apis: tuple[str, ...] = ()
    """Kafka's names: DeleteTopics, AlterConfigs, ..."""
    request_max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=2147483647)] | None = None
    """Of one request, header and body."""
    required_acks: Literal["all", "1"] | None = None
    """The least a Produce must ask for: `all`, or `1` (which also lets `all` through)."""


class Limits(Policy):
    """See the module."""

    Config = LimitsConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, LimitsConfig):
            raise PolicyConfigError("", "not a LimitsConfig")
        self._forbidden = frozenset(
            _key(f"forbidden_apis[{place}]", name)
            for place, name in enumerate(config.forbidden_apis)
        )
        self._most_bytes = config.request_max_bytes or 0
        self._acks = _ACKS.get(config.required_acks or "")
        if not self._most_bytes:
            produce = {ApiKey.PRODUCE} if self._acks is not None else set()
            self.apis = self._forbidden | produce

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Refuse what is forbidden, too large, or asks for too few acks."""
        api_key = request.api_key
        if api_key in self._forbidden:
            return Reject(ErrorCode.POLICY_VIOLATION)
        if self._most_bytes and request.size_bytes > self._most_bytes:
            large = api_key == ApiKey.PRODUCE
            return Reject(ErrorCode.MESSAGE_TOO_LARGE if large else ErrorCode.POLICY_VIOLATION)
        if self._acks is not None and api_key == ApiKey.PRODUCE and request.acks not in self._acks:
            return Reject(ErrorCode.INVALID_REQUIRED_ACKS)
        return FORWARD


def _key(path: str, name: str) -> int:
    key = key_of(name)
    if key is None:
        raise PolicyConfigError(path, f"no Kafka API is called {name!r}")
    if key in _NEVER_FORBIDDEN:
        raise PolicyConfigError(path, f"without {name} no client can connect at all")
    return key
