"""The findings of a report in words, most important first. Each rule is a function of the facts.

Rules:
- A client counts as throttled from NOTABLE_SHARE of its requests on. The one with most throttled requests comes first,
  because a thousand delays of one client weigh more than the only request of another.
- The quota that would have ended the throttling of a client is the recommended one, if it is not below the need.
- The knee of the what-if curve is the point with the largest distance from the line between its ends (the rule of
  Kneedle, Satopää et al. 2011; factors on a logarithmic axis), if that distance is worth a mark.
- Losses are named before anything is concluded from the rest: see `caution`.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING, Final, NamedTuple

from pipeline.report.labels import (
    client_names,
    count,
    duration,
    figure,
    percent,
    spoken,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipeline.report.facts import ClientName, ClientUse, EntityNeed, ReportFacts, SweepCell

NOTABLE_SHARE: Final = 0.01
NEAR_QUOTA: Final = 0.8
WASTEFUL: Final = 3.0
"""A quota this many times above the need limits nothing."""
LEAST_BEND: Final = 0.05
MAX_FINDINGS: Final = 6
MAX_NAMED: Final = 3
"""Throttled clients that have a sentence of their own."""


class CurvePoint(NamedTuple):
    """All clients of a sweep together at one factor."""

    factor: float
    throttled_share: float
    accepted_share: float
    """Accepted requests as a share of those that clients would send without a quota."""


def most_throttled(clients: Iterable[ClientUse]) -> list[ClientUse]:
    """Return the clients that were notably throttled, those with most throttled requests first."""
    found = [each for each in clients if each.throttled_share >= NOTABLE_SHARE]
    return sorted(found, key=lambda each: (-each.throttled, each.client))


def curve_of(cells: Iterable[SweepCell]) -> list[CurvePoint]:
    """Return the sums of all clients for each factor, in the order of the factors."""
    sums: dict[float, list[int]] = {}
    for cell in cells:
        total = sums.setdefault(cell.factor, [0, 0, 0])
        for place, value in enumerate((cell.demand, cell.accepted, cell.throttled)):
            total[place] += value
    return [
        CurvePoint(
            factor,
            min(1.0, throttled / accepted) if accepted else 0.0,
            min(1.0, accepted / demand) if demand else 1.0,
        )
        for factor, (demand, accepted, throttled) in sorted(sums.items())
    ]


def maybe_knee(points: Sequence[CurvePoint]) -> CurvePoint | None:
    """Return the point after which a larger quota helps little; None if the curve has no such bend."""
    if len(points) < 3:
        return None
    first, last = points[0], points[-1]
    fall, length = first.throttled_share - last.throttled_share, log2(last.factor / first.factor)
    if fall < NOTABLE_SHARE:
        return None

    def bend(point: CurvePoint) -> float:
        done = (first.throttled_share - point.throttled_share) / fall
        return done - log2(point.factor / first.factor) / length

    knee = max(points[1:-1], key=bend)
    return knee if bend(knee) >= LEAST_BEND else None


def headline(facts: ReportFacts) -> str:
    """Return the first finding: the sentence that the page opens with."""
    return next(_first(facts))


def findings(facts: ReportFacts) -> list[str]:
    """Return the further findings, at most MAX_FINDINGS."""
    first = headline(facts)
    every = [*_first(facts), *_quotas(facts), *_curve(facts), *_waits(facts), *_pools(facts)]
    return [each for each in dict.fromkeys(every) if each != first][:MAX_FINDINGS]


def caution(facts: ReportFacts) -> str:
    """Return what is missing in the data, as one sentence; empty if nothing is."""
    quality = facts.quality
    held_back = sum(quality.quarantined.values())
    losses = (
        (quality.lost, "row is missing", "rows are missing"),
        (held_back, "row was set aside", "rows were set aside"),
        (quality.rows_dropped, "row was never written", "rows were never written"),
        (quality.spans_dropped, "span was dropped", "spans were dropped"),
    )
    parts = [f"{count(n)} {one if n == 1 else many}" for n, one, many in losses if n]
    return f"{', '.join(parts)}: the true figures may be higher." if parts else ""


def _first(facts: ReportFacts) -> Iterator[str]:
    names = _names(facts)
    hit = most_throttled(facts.clients)
    for use in hit[:MAX_NAMED]:
        yield f"{_throttled(use, names)}{_remedy(facts, use)}"
    if more := hit[MAX_NAMED:]:
        yield f"{count(len(more))} more {_plural('client', more)} {_plural('was', more)} throttled."
    if not facts.clients:
        yield "No client sent a request."
        return
    most = max(facts.clients, key=lambda each: (each.requests, each.client))
    share = most.requests / max(1, facts.scope.requests)
    sends = f"{names[most.client]} sends most: {percent(share)} of all requests."
    if not any(each.throttled for each in facts.clients):
        limited = any(each.quota_rate is not None for each in facts.clients)
        yield "No request was throttled." if limited else f"No client has a quota. {sends}"
    elif not hit:
        share = facts.scope.throttled / max(1, facts.scope.charged)
        yield f"{percent(share)} of the requests were throttled."
    if len(facts.clients) > 1:
        yield sends


def _throttled(use: ClientUse, names: dict[ClientName, str]) -> str:
    mean = use.throttle_ms / use.throttled
    return (
        f"{percent(use.throttled_share)} of the requests of {names[use.client]} were throttled,"
        f" by {duration(mean)} on average"
    )


def _remedy(facts: ReportFacts, use: ClientUse) -> str:
    own = (need for need in facts.needs if _is_of(need, use.client))
    recommended = next((n.recommended for n in own if n.need <= (n.recommended or 0)), None)
    if recommended is None or recommended <= (use.quota_rate or 0):
        return "."
    present = f" instead of {figure(use.quota_rate)}" if use.quota_rate is not None else ""
    return f". {figure(recommended)} requests/s{present} would have ended that."


def _is_of(need: EntityNeed, client: ClientName) -> bool:
    return all(mine in (None, its) for mine, its in zip(need.entity, client, strict=True))


def _plural(word: str, counted: Sequence[object]) -> str:
    many = {"has": "have", "was": "were"}.get(word, f"{word}s")
    return word if len(counted) == 1 else many


def _quotas(facts: ReportFacts) -> Iterator[str]:
    limited = [(each, each.quota) for each in facts.needs if each.quota]
    tight = [(each, quota) for each, quota in limited if NEAR_QUOTA * quota <= each.need <= quota]
    if tight:
        need, quota = max(tight, key=lambda pair: pair[0].need / pair[1])
        yield (
            f"{_name(need)} is close to its quota: it needs {figure(need.need)}"
            f" of {figure(quota)} requests/s."
        )
    loose = [each for each, quota in limited if each.need * WASTEFUL <= quota]
    if loose:
        if len(loose) == 1:
            yield f"The quota of {_name(loose[0])} is more than three times the need: it limits nothing."
        else:
            yield f"{len(loose)} quotas are more than three times the need: they limit nothing."
    bare = [each for each in facts.needs if each.quota is None]
    if bare and limited:
        yield f"{_name(bare[0]) if len(bare) == 1 else f'{len(bare)} entities'} {_plural('has', bare)} no quota."


def _curve(facts: ReportFacts) -> Iterator[str]:
    knee = maybe_knee(curve_of(facts.sweep))
    if knee is not None:
        yield (
            f"With {'' if knee.factor == 1 else f'{figure(knee.factor)} times '}{facts.sweep_of or 'the candidate'}"
            f" {percent(knee.throttled_share)} of the requests would be throttled; more changes little."
        )


def _waits(facts: ReportFacts) -> Iterator[str]:
    held = [each for each in facts.waits if each.stage == "purgatory" and each.by == "api"]
    if held:
        worst = max(held, key=lambda each: each.p99_ms)
        yield (
            f"{worst.name} requests in the purgatory waited up to {duration(worst.p99_ms)}"
            f" (p99 of {count(worst.requests)})."
        )


def _pools(facts: ReportFacts) -> Iterator[str]:
    empty_ms = sum(each.depleted_ms for each in facts.pools)
    if empty_ms:
        yield f"Memory pools were empty for {duration(empty_ms)}: clients waited for memory."


def _names(facts: ReportFacts) -> dict[ClientName, str]:
    named = client_names(each.client for each in facts.clients)
    return {each: spoken(name) for each, name in named.items()}


def _name(need: EntityNeed) -> str:
    return spoken(need.name)
