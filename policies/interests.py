"""Which requests a policy judges and how often it ticks: its attributes, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import Need
from policies.verdicts import short_repr
from wire.apis import OFFERED, SIGN_ON, ApiKey, name_of
from wire.authorization import RESOURCE_APIS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from policies.api import Policy

_MAX_TICK_MS: Final = 2_147_483_647


class Interests(NamedTuple):
    """The checked values of the attributes of the same names; see `Policy`."""

    apis: frozenset[int] | None
    response_apis: frozenset[int] | None
    hears_body: frozenset[int]
    needs: Need | Mapping[int, Need]
    tick_ms: int
    max_versions: Mapping[int, int | None]
    asked_first: bool = False
    answers: frozenset[int] = frozenset()

    def need(self, api_key: int) -> Need:
        """Return how much of a request of this API must be there."""
        needs = self.needs
        return needs if isinstance(needs, Need) else needs.get(api_key, Need.HEADER)

    def kind(self, api_key: int) -> tuple[bool, bool, bool, bool, Need]:
        """Return all that these interests say of an API: the same for APIs that they do not tell apart."""
        return (
            self.apis is None or api_key in self.apis,
            self.response_apis is None or api_key in self.response_apis,
            api_key in self.hears_body,
            api_key in self.answers,
            self.need(api_key),
        )


def interests_of(policy: Policy) -> Interests:
    """Return the checked interests of a policy.

    Raises:
        TypeError: an attribute is not as `Policy` says. The message names it, its value, and the expected type.
    """
    tick_ms: object = policy.tick_ms
    if type(tick_ms) is not int or not 0 <= tick_ms <= _MAX_TICK_MS:
        raise TypeError(
            f"tick_ms is {short_repr(tick_ms)}, expected an integer in 0..{_MAX_TICK_MS}"
        )
    asked_first: object = policy.asked_first
    if type(asked_first) is not bool:
        raise TypeError(f"asked_first is {short_repr(asked_first)}, expected True or False")
    apis, response_apis = _keys("apis", policy.apis), _keys("response_apis", policy.response_apis)
    return Interests(
        apis,
        response_apis,
        _hears_body(policy.hears_body, apis, response_apis),
        _needs(policy.needs),
        tick_ms,
        _max_versions(policy.max_versions),
        asked_first,
        _some_keys("answers", policy.answers),
    )


def offered_below(caps: Iterable[Mapping[int, int | None]]) -> Mapping[int, tuple[int, int]]:
    """Return the lowest and highest version of each API that Sluice accepts below all these caps."""
    offered = dict(OFFERED)
    for max_versions in caps:
        for key, highest in max_versions.items():
            if highest is not None:
                offered[key] = (offered[key][0], min(offered[key][1], highest))
    return offered


def kinds(api_key: int, interests: Iterable[Interests]) -> tuple[object, ...]:
    """Return what decides the hooks of this API: APIs with equal kinds share them."""
    return api_key in RESOURCE_APIS, *(each.kind(api_key) for each in interests)


def joined_need(needs: Collection[Need], api_key: int) -> Need:
    """Return what several policies need together of requests of this API."""
    useless = set() if api_key in RESOURCE_APIS else {Need.TOPICS}
    return max(set(needs) - useless, default=Need.HEADER)


def _keys(name: str, value: object) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(value, frozenset | set) or not all(isinstance(key, int) for key in value):
        raise TypeError(f"{name} is {short_repr(value)}, expected a frozenset of API keys, or None")
    return frozenset(value)


def _some_keys(name: str, value: object) -> frozenset[int]:
    keys = _keys(name, value)
    if keys is None:
        raise TypeError(f"{name} is None, expected a frozenset of API keys")
    return keys


def _hears_body(
    value: object, apis: frozenset[int] | None, response_apis: frozenset[int] | None
) -> frozenset[int]:
    keys = _some_keys("hears_body", value)
    for key in keys:
        if key not in OFFERED or key in SIGN_ON:
            raise TypeError(
                f"hears_body has the key {short_repr(key)}, expected the key of an API that Sluice offers, except "
                f"ApiVersions, SaslHandshake and SaslAuthenticate"
            )
        for name, wanted in (("apis", apis), ("response_apis", response_apis)):
            if wanted is not None and key not in wanted:
                raise TypeError(f"hears_body has {name_of(key)}, which is not in {name}")
    return keys


def _needs(value: object) -> Need | Mapping[int, Need]:
    if isinstance(value, Need):
        return value
    if isinstance(value, Mapping) and all(isinstance(need, Need) for need in value.values()):
        return dict(value)
    raise TypeError(
        f"needs is {short_repr(value)}, expected a Need, or a mapping of API keys to Needs"
    )


def _max_versions(value: object) -> Mapping[int, int | None]:
    if not isinstance(value, Mapping):
        raise TypeError(
            f"max_versions is {short_repr(value)}, expected a mapping of API keys to versions"
        )
    for key, version in value.items():
        if key not in OFFERED or key == ApiKey.API_VERSIONS:
            raise TypeError(
                f"max_versions has the key {short_repr(key)}, expected the key of an API that Sluice offers, except "
                f"ApiVersions"
            )
        lowest, highest = OFFERED[key]
        if version is None:
            continue
        if type(version) is not int or not lowest <= version <= highest:
            raise TypeError(
                f"max_versions of {name_of(key)} is {short_repr(version)}, expected a version in {lowest}..{highest}, "
                f"or None"
            )
    return dict(value)
