"""Limits of the two files that are valid and have no effect, or not the expected one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.quota.entity import ClientQuotas, entity_text, outranked_warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.quota.config import QuotaLine

MAX_HINTS: Final = 10
"""Limits of the quotas file that are named; the others are counted."""


def ineffective_limits(lines: Sequence[QuotaLine], quotas: ClientQuotas) -> Iterator[str]:
    """Yield a text for each such limit, with the path of its setting first.

    `lines` are those of the configuration; `quotas` has all limits.
    """
    for place, line in enumerate(lines):
        for key, _ in line.limits():
            winner = quotas.maybe_outranked(line.entity, key)
            if winner is not None:
                yield f"quotas[{place}].{key}: {outranked_warning(key, winner)}"
    found = _in_quotas_file(lines, quotas)
    yield from (f"quotas_file: {each}" for each in islice(found, MAX_HINTS))
    if more := sum(1 for _ in found):
        yield f"quotas_file: {more} more of its limits have no effect for the same reasons"


def _in_quotas_file(lines: Sequence[QuotaLine], quotas: ClientQuotas) -> Iterator[str]:
    places = {(line.entity, key): n for n, line in enumerate(lines) for key, _ in line.limits()}
    for entity, limits in quotas.in_quotas_file.items():
        for key in limits:
            place = places.get((entity, key))
            winner = quotas.maybe_outranked(entity, key)
            limit = f"the {key} of {{{entity_text(entity)}}}"
            if place is not None:
                yield f"{limit} has no effect: quotas[{place}] sets it too, and the configuration wins"
            elif winner is not None:
                yield f"{limit}: {outranked_warning(key, winner)}"
