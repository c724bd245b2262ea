"""What is counted of requests: plain lists and integers, read by whoever shows them.

Rules:
- A Meter counts the requests of one API; with usage records of the family `api`, one of each user,
  client id and API (`MeterBook.by_key`), and the sum is made when somebody asks.
- Where an admin server looks in, a Meter is of one user, client id, API and broker, for `max_parts` of them; the others
  share one for each API. Which list a request adds to is chosen with its plan, so the request itself costs the same.
- `upstream` is added to by the fast loop: from the request's last byte on its way to the broker to the reply's
  last byte here. So what it holds are the requests that were replied to; `outcomes` counts those that ended otherwise.
- The other histograms are not there until something waited so.
- `parked` are waits that did not end with the broker's reply: of requests that a policy held, by how that ended, and
  of those that Sluice answered in the broker's place, from their arrival on. The rest is in `upstream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.stats.histogram import BUCKETS, bucket_of, joined

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_Key = tuple[int, str, str, int | None]
STAGES = ("receive", "memory", "throttle", "purgatory")
"""Where a request may wait before it is forwarded: for its own last byte, for memory, for a quota, for a policy."""


class Meter:
    """Counts of one kind of requests. `waits` has a histogram for each stage that was ever waited in."""

    __slots__ = (
        "api_key",
        "client_id",
        "name",
        "node",
        "outcomes",
        "parked",
        "request_bytes",
        "response_bytes",
        "upstream",
        "user",
        "waits",
    )

    def __init__(
        self,
        api_key: int,
        name: str,
        user: str = "",
        client_id: str = "",
        node: int | None = None,
    ) -> None:
        self.api_key = api_key
        self.name = name
        self.user = user
        self.client_id = client_id
        self.node = node
        """The broker, where meters are told apart by it; None: the bootstrap port, or any."""
        self.upstream = [0] * BUCKETS
        self.outcomes = dict.fromkeys(Outcome, 0)  # all but REPLIED, which `upstream` knows
        self.waits: dict[str, list[int]] = {}
        self.parked: dict[str, list[int]] = {}
        self.request_bytes = 0  # of the family `api` only, as `response_bytes`
        self.response_bytes = 0

    @property
    def replied(self) -> int:
        """How many were replied to by the broker."""
        return sum(self.upstream)

    def outcome(self, outcome: Outcome) -> int:
        """How many ended so."""
        return self.replied if outcome is Outcome.REPLIED else self.outcomes[outcome]

    def waited(self, stage: str, us: int) -> None:
        """A request has waited in one of STAGES."""
        _count(self.waits, stage, us)

    def left(self, ending: str, us: int) -> None:
        """A request's wait in the purgatory is over: `condition`, `expired`, `drained` or `client_gone`."""
        _count(self.parked, ending, us)


class MeterBook:
    """All meters of a process."""

    __slots__ = (
        *("_gone", "_meters", "_of", "_retired", "away_us", "by_key", "max_parts", "step_us"),
    )

    def __init__(self, *, by_key: bool = False) -> None:
        self.by_key = by_key
        """Whether each user and client id has meters of its own."""
        self.max_parts = 0
        """How many meters there may be of one user, client id, API and broker."""
        self._gone: set[tuple[str, str]] = set()  # had no connection at the last sweep
        self._meters: dict[_Key, Meter] = {}
        self._of: dict[tuple[str, str], list[Meter]] = {}
        self._retired: dict[int, Meter] = {}
        self.step_us = [0] * BUCKETS
        """What a step of the event loop took (one in sixteen is measured): nobody waited longer for a turn."""
        self.away_us = [0] * BUCKETS
        """How long the event loop stood still for the process's other tasks, each time they had their turn."""

    def part(self, max_parts: int) -> None:
        """Have `max_parts` meters of one user, client id, API and broker, unless usage records want them by key."""
        if not self.by_key:
            self.max_parts = max_parts

    def find(
        self, api_key: int, name: str, user: str, client_id: str, node: int | None = None
    ) -> Meter:
        """The meter of these requests."""
        key: _Key = (api_key, user, client_id, None if self.by_key else node)
        meter = self._meters.get(key) if self.by_key or self.max_parts else None
        if meter is None:
            if not self.by_key and len(self._meters) >= self.max_parts:
                key = (api_key, "", "", None)
                meter = self._meters.get(key)
            if meter is None:
                meter = self._meters[key] = Meter(api_key, name, *key[1:])
                if key[1]:
                    self._of.setdefault(key[1:3], []).append(meter)
        return meter

    def of(self, user: str, client_id: str) -> Sequence[Meter]:
        """The meters of this key, if keys have their own."""
        return self._of.get((user, client_id), ())

    def each(self) -> Sequence[Meter]:
        """Every meter as it is: of each API, or of each key."""
        return tuple(self._meters.values())

    def sweep(self, connected: Collection[tuple[str, str]]) -> None:
        """Retire the meters of keys without a connection, now and at the sweep before: replies may come late."""
        if not self.max_parts:
            return
        gone = {key for key in self._of if key not in connected}
        for key in gone & self._gone:
            for meter in tuple(self._of[key]):
                self.retire(meter)
        self._gone = gone

    def retire(self, meter: Meter) -> None:
        """A key that is gone: its counts stay in the sums."""
        key: _Key = (meter.api_key, meter.user, meter.client_id, meter.node)
        if self._meters.get(key) is meter:
            del self._meters[key]
            self._of.pop(key[1:3], None)
            into = self._retired.setdefault(meter.api_key, Meter(meter.api_key, meter.name))
            _add(into, meter)

    def gone(self) -> list[Meter]:
        """What keys that are gone have counted, one for each API: copies, which do not change any more."""
        return summed(self._retired.values())

    def by_api(self) -> list[Meter]:
        """One for each API, in the order of their keys. See `summed`."""
        return summed((*self._retired.values(), *self._meters.values()))


def summed(meters: Iterable[Meter]) -> list[Meter]:
    """New meters, one for each API, in the order of their keys. Five microseconds for each that is given.

    They may count on meanwhile: this may run on another thread.
    """
    apis: dict[int, list[Meter]] = {}
    for meter in meters:
        apis.setdefault(meter.api_key, []).append(meter)
    return [_sum(apis[key]) for key in sorted(apis)]


def _count(histograms: dict[str, list[int]], key: str, us: int) -> None:
    counts = histograms.get(key)
    if counts is None:
        counts = histograms[key] = [0] * BUCKETS
    counts[bucket_of(us)] += 1


def _join(into: dict[str, list[int]], parts: Sequence[Mapping[str, list[int]]]) -> None:
    """The sums of all parts, by key."""
    for key in {key: None for part in parts for key in tuple(part)}:
        into[key] = joined([part[key] for part in parts if key in part])


def _sum(meters: Sequence[Meter]) -> Meter:
    into = Meter(meters[0].api_key, meters[0].name)
    into.upstream = [
        sum(column) for column in zip(*[each.upstream for each in meters], strict=True)
    ]
    _join(into.waits, [each.waits for each in meters])
    _join(into.parked, [each.parked for each in meters])
    for outcome in into.outcomes:
        into.outcomes[outcome] = sum([each.outcomes[outcome] for each in meters])
    into.request_bytes = sum([each.request_bytes for each in meters])
    into.response_bytes = sum([each.response_bytes for each in meters])
    return into


def _add(into: Meter, meter: Meter) -> None:
    into.upstream[:] = joined((into.upstream, meter.upstream))
    for outcome, count in meter.outcomes.items():
        into.outcomes[outcome] += count
    _join(into.waits, (into.waits, meter.waits))
    _join(into.parked, (into.parked, meter.parked))
    into.request_bytes += meter.request_bytes
    into.response_bytes += meter.response_bytes
