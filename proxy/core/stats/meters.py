"""Meters count requests in plain lists and integers, from which metrics and admin views are computed.

Rules:
- A Meter counts the requests of one API. With usage records of the family `api` it counts one user, client id and API
  (`MeterBook.by_key`), and the sums are computed on demand.
- With an admin server, there are up to `max_parts` meters of one user, client id, API and broker each; all other
  requests share one meter for each API. The plan of a request chooses its meter, so a request costs the same.
- The fast loop adds to `upstream`: the time from forwarding the request's last byte to receiving the reply's last
  byte. So `upstream` counts the requests with a reply; `outcomes` counts those that ended otherwise.
- The other histograms are created when the first request waits in that way.
- `parked` has the waits that did not end with the broker's reply: of requests held by a policy, by how the wait ended,
  and of requests that Sluice answered itself, from their arrival. All other waits are in `upstream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Outcome
from proxy.core.stats.histogram import BUCKET, BUCKETS, FINE_US, bucket_of, joined

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_Key = tuple[int, str, str, int | None]
STAGES = ("receive", "memory", "throttle", "purgatory")
"""The stages in which a request waits before it is forwarded: for its last byte, memory, a quota, or a policy."""
DELAY = "delay"
"""By how long quotas delay a client for one request: its waits for a quota, and the pauses that it brings."""


class Meter:
    """Counts requests of one kind. `waits` has a histogram for each stage in which a request has waited, and that of
    DELAY, of requests that have ended.
    """

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
        """The node id of the broker, if meters are kept for each broker; None: the bootstrap port, or any."""
        self.upstream = [0] * BUCKETS
        self.outcomes = dict.fromkeys(Outcome, 0)  # all but REPLIED, which `upstream` counts
        self.waits: dict[str, list[int]] = {}
        self.parked: dict[str, list[int]] = {}
        self.request_bytes = 0  # of the family `api` only, as `response_bytes`
        self.response_bytes = 0

    @property
    def replied(self) -> int:
        """The number of requests that the broker replied to."""
        return sum(self.upstream)

    def outcome(self, outcome: Outcome) -> int:
        """Return how many requests ended with this outcome."""
        return self.replied if outcome is Outcome.REPLIED else self.outcomes[outcome]

    def count_bytes(self, request_bytes: int, response_bytes: int) -> None:
        """Count the bytes of a request that was replied to, and of its reply."""
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes

    def count_wait(self, stage: str, us: int) -> None:
        """Count a wait of `us` microseconds in `stage`, one of STAGES; or DELAY."""
        _count(self.waits, stage, us)

    def left(self, ending: str, us: int) -> None:
        """Count a wait of `us` in the purgatory by its ending, one of WAIT_OUTCOMES."""
        _count(self.parked, ending, us)


class MeterBook:
    """Holds all meters of a process."""

    __slots__ = (
        *("_gone", "_meters", "_of", "_retired", "away_us", "by_key", "max_parts", "step_us"),
    )

    def __init__(self, *, by_key: bool = False) -> None:
        self.by_key = by_key
        """Whether each user and client id has meters of its own."""
        self.max_parts = 0
        """The maximum number of meters for one user, client id, API and broker each."""
        self._gone: set[tuple[str, str]] = set()  # had no connection at the last sweep
        self._meters: dict[_Key, Meter] = {}
        self._of: dict[tuple[str, str], list[Meter]] = {}
        self._retired: dict[int, Meter] = {}
        self.step_us = [0] * BUCKETS
        """The durations of event loop steps (one in sixteen is measured): the longest that a session waits."""
        self.away_us = [0] * BUCKETS
        """The durations of the event loop's pauses, in which the other tasks of the process ran."""

    def part(self, max_parts: int) -> None:
        """Keep up to `max_parts` meters for each user, client id, API and broker, unless they are kept `by_key`."""
        if not self.by_key:
            self.max_parts = max_parts

    def find(
        self, api_key: int, name: str, user: str, client_id: str, node: int | None = None
    ) -> Meter:
        """Return the meter of these requests, created if there is none."""
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
        """Return the meters of this user and client id; none if meters are not kept for each key."""
        return self._of.get((user, client_id), ())

    def each(self) -> Sequence[Meter]:
        """Return all meters without sums: of each API, or of each key."""
        return tuple(self._meters.values())

    def sweep(self, connected: Collection[tuple[str, str]]) -> None:
        """Retire the meters of keys without a connection both now and at the last sweep; replies may arrive late."""
        if not self.max_parts:
            return
        gone = {key for key in self._of if key not in connected}
        for key in gone & self._gone:
            for meter in tuple(self._of[key]):
                self.retire(meter)
        self._gone = gone

    def retire(self, meter: Meter) -> None:
        """Remove the meter of a disconnected key, and keep its counts in the sums."""
        key: _Key = (meter.api_key, meter.user, meter.client_id, meter.node)
        if self._meters.get(key) is meter:
            del self._meters[key]
            self._of.pop(key[1:3], None)
            into = self._retired.setdefault(meter.api_key, Meter(meter.api_key, meter.name))
            _add(into, meter)

    def gone(self) -> list[Meter]:
        """Return copies of the sums of all retired meters, one for each API."""
        return summed(self._retired.values())

    def by_api(self) -> list[Meter]:
        """Return the sums of all meters, one for each API, ordered by API key (see `summed`)."""
        return summed((*self._retired.values(), *self._meters.values()))


def summed(meters: Iterable[Meter]) -> list[Meter]:
    """Return new meters, the sums for each API, ordered by API key. It takes about 5 µs for each given meter.

    It may run on another thread, while the given meters continue to count.
    """
    apis: dict[int, list[Meter]] = {}
    for meter in meters:
        apis.setdefault(meter.api_key, []).append(meter)
    return [_sum(apis[key]) for key in sorted(apis)]


def _count(histograms: dict[str, list[int]], key: str, us: int) -> None:
    counts = histograms.get(key)
    if counts is None:
        counts = histograms[key] = [0] * BUCKETS
    counts[BUCKET[us] if 0 < us < FINE_US else bucket_of(us)] += 1


def _join(into: dict[str, list[int]], parts: Sequence[Mapping[str, list[int]]]) -> None:
    """Store the sums of all parts in `into`, by key."""
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
