"""`limits`: what no client of this proxy may do, or none of some clients.

    - use: limits
      config:
        who: [team:analysts, 'guest-*']     # whom the entry is about; default: every client
        forbidden_apis: [DeleteTopics]      # answered with POLICY_VIOLATION, in the API's own shape
        request_max_bytes: 1048576          # larger: MESSAGE_TOO_LARGE (Produce), else POLICY_VIOLATION
        required_acks: all                  # a Produce with less: INVALID_REQUIRED_ACKS; acks=0 closes

It judges by the header alone, so the requests that it accepts are forwarded without buffering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from policies.api import FORWARD, Forward, Host, Peer, Policy, PolicyConfigError, Reject, Request
from policies.crowd import Crowd
from policies.type_names import describe_value, nearest
from policies.validation import Problem
from policies.verdicts import short_repr
from policies.who_settings import Teams, Who, claim_hints
from wire.apis import OFFERED, SIGN_ON, ApiKey, find, key_of
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ACKS = {"all": frozenset({-1}), "1": frozenset({-1, 1})}


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every setting is optional; one that is absent limits nothing."""

    who: tuple[Who, ...] = ()
    """The clients that are limited, as in `access`. Empty: every client, also without authentication."""
    teams: Teams = msgspec.field(default_factory=dict)
    """Members of the teams in `who`."""
    forbidden_apis: tuple[str, ...] = ()
    """Kafka's names: DeleteTopics, AlterConfigs, ..."""
    request_max_bytes: Annotated[int, msgspec.Meta(ge=1024, le=2147483647)] | None = None
    """The largest request, header and body, in bytes."""
    required_acks: Literal["all", "1"] | None = None
    """The least acks of a Produce: `all`, or `1` (which also accepts `all`)."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each unknown API name, and for each API that every client needs."""
        names = [each.name for key in OFFERED if (each := find(key, OFFERED[key][0]))]
        for place, name in enumerate(self.forbidden_apis):
            key = key_of(name)
            path = f"forbidden_apis[{place}]"
            if key is None:
                yield Problem(
                    path, describe_value(name), "the name of a Kafka API", nearest(name, names)
                )
            elif key in SIGN_ON:
                words = "an API that a client can do without"
                yield Problem(path, describe_value(name), words)


class Limits(Policy):
    """Refuses requests of forbidden APIs, requests that are too large, and Produce requests with too few acks."""

    Config = LimitsConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, LimitsConfig):
            raise PolicyConfigError("", f"expected a LimitsConfig, got {short_repr(config)}")
        self._config = config
        self._who = Crowd(config.who, config.teams) if config.who else None
        keys = (key_of(name) for name in config.forbidden_apis)
        self._forbidden = frozenset(key for key in keys if key is not None)
        self._max_bytes = config.request_max_bytes or 0
        self._acks = _ACKS.get(config.required_acks or "")
        self._required = "acks=all" if config.required_acks == "all" else "acks=1 or acks=all"
        if not self._max_bytes:
            produce = {ApiKey.PRODUCE} if self._acks is not None else set()
            self.apis = self._forbidden | produce

    def hints(self) -> Iterable[str]:
        """Return texts about clients that are found by what they claim."""
        return claim_hints(self._config.who, self._config.teams)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Return FORWARD, or a Reject with the reason."""
        if self._who is not None and not self._who.has(peer):
            return FORWARD
        api_key = request.api_key
        if api_key in self._forbidden:
            message = f"{request.api.name} is forbidden here"
            return Reject(ErrorCode.POLICY_VIOLATION, message=message)
        if self._max_bytes and request.size_bytes > self._max_bytes:
            large = api_key == ApiKey.PRODUCE
            code = ErrorCode.MESSAGE_TOO_LARGE if large else ErrorCode.POLICY_VIOLATION
            size = f"request size {request.size_bytes} is outside 0..{self._max_bytes}"
            return Reject(code, message=size)
        if self._acks is not None and api_key == ApiKey.PRODUCE and request.acks not in self._acks:
            message = f"the request has acks={request.acks}, expected {self._required}"
            return Reject(ErrorCode.INVALID_REQUIRED_ACKS, message=message)
        return FORWARD

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Forget the connection."""
        if self._who is not None:
            self._who.forget(peer)
