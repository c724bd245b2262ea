"""Which requests a policy judges and how often it ticks: its attributes, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import Need
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from policies.api import Policy

_MAX_TICK_MS: Final = 2_147_483_647


class Interests(NamedTuple):
    """The checked values of the attributes of the same names; see `Policy`."""

    apis: frozenset[int] | None
    response_apis: frozenset[int] | None
    needs: Need | Mapping[int, Need]
    tick_ms: int

    def need(self, api_key: int) -> Need:
        """Return how much of a request of this API must be there."""
        needs = self.needs
        return needs if isinstance(needs, Need) else needs.get(api_key, Need.HEADER)


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
    return Interests(
        _keys("apis", policy.apis),
        _keys("response_apis", policy.response_apis),
        _needs(policy.needs),
        tick_ms,
    )


def _keys(name: str, value: object) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(value, frozenset | set) or not all(isinstance(key, int) for key in value):
        raise TypeError(f"{name} is {short_repr(value)}, expected a frozenset of API keys, or None")
    return frozenset(value)


def _needs(value: object) -> Need | Mapping[int, Need]:
    if isinstance(value, Need):
        return value
    if isinstance(value, Mapping) and all(isinstance(need, Need) for need in value.values()):
        return dict(value)
    raise TypeError(
        f"needs is {short_repr(value)}, expected a Need, or a mapping of API keys to Needs"
    )
