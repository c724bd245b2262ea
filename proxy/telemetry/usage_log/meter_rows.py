"""The family `api`: what the core's meters have counted since they were last looked at.

Rules:
- `MeterWatch.look` runs on the loop: it copies the lists of the meters that may have moved, no more. `api_rows`
  makes the differences, elsewhere and later. Meters only grow, so a look that is lost is in the next one.
- Only keys that did something in a second are looked at. What nobody does (a connection that breaks) is seen
  with whatever the key does next.
- The meters of keys that are gone are looked at a last time a little later, then retired: some a second, so
  that invented names cost no memory for long. (What was in flight then and is replied to later, as on a
  connection that has changed its client id, is not counted.)
- While nothing can be looked at (`pass_over`) the meters go on counting, of so many keys at most that came and went:
  then the oldest of these are retired unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import Outcome
from proxy.core.meters import STAGES
from proxy.telemetry.usage_log.rows import ApiRow, Stamp, cut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from proxy.core.meters import Meter, MeterBook

Key = tuple[str, str]
_RETIRE_LEAST: Final = 64
_RETIRE_SHARE: Final = 8
MISSED_MOST: Final = 10_000
_ENDS: Final = (Outcome.NO_REPLY, Outcome.ANSWERED, Outcome.EXPIRED, Outcome.DISCONNECTED)


class Reading(NamedTuple):
    """A meter as it stood."""

    meter: Meter
    upstream: list[int]
    outcomes: tuple[int, ...]
    waits: dict[str, list[int]]
    request_bytes: int
    response_bytes: int


class MeterWatch:
    """Looks at the meters of whoever is active. Of the loop's thread."""

    def __init__(self, book: MeterBook) -> None:
        self._book = book
        self._known: set[Key] = set()
        self._gone: dict[Key, None] = {}  # without a connection since the last look at least
        self._missed: dict[Key, None] = {}  # never looked at; the oldest first

    def look(
        self, active: Collection[Key], connected: Collection[Key]
    ) -> tuple[list[Reading], list[Meter]]:
        """The meters of the active keys as they stand, and those that are retired with this look."""
        over = [key for key in self._gone if key not in connected]
        over = over[: max(_RETIRE_LEAST, len(over) // _RETIRE_SHARE)]
        self._known.update(active, self._missed)
        self._missed.clear()
        self._known.difference_update(over)
        self._gone = dict.fromkeys(key for key in self._known if key not in connected)
        readings = [
            _read(meter) for key in dict.fromkeys((*active, *over)) for meter in self._book.of(*key)
        ]
        retired = [meter for key in over for meter in tuple(self._book.of(*key))]
        for meter in retired:
            self._book.retire(meter)
        return readings, retired

    def pass_over(self, active: Collection[Key], connected: Collection[Key]) -> int:
        """Not now. How many meters had to be retired unseen, for there are too many."""
        missed = self._missed
        missed.update((key, None) for key in active if key not in self._known)
        too_many = len(missed) - MISSED_MOST
        if too_many <= 0:
            return 0
        lost = 0
        for key in [key for key in missed if key not in connected][:too_many]:
            del missed[key]
            for meter in tuple(self._book.of(*key)):
                self._book.retire(meter)
                lost += 1
        return lost

    def look_at_all(self) -> list[Reading]:
        """The meters of every key that is not retired: the last look."""
        return [_read(meter) for meter in self._book.each()]


def _read(meter: Meter) -> Reading:
    return Reading(
        meter,
        meter.upstream[:],
        tuple([meter.outcomes[end] for end in _ENDS]),
        {stage: counts[:] for stage, counts in meter.waits.items()},
        meter.request_bytes,
        meter.response_bytes,
    )


class MeterDiffs:
    """Readings in, rows out. Of the writer's thread."""

    def __init__(self) -> None:
        self._last: dict[int, Reading] = {}  # by the meter's id; a Reading keeps its meter alive

    def rows(self, stamp: Stamp, ts_ms: int, readings: Sequence[Reading]) -> Iterator[ApiRow]:
        """A row for each that has moved."""
        for new in readings:
            row = self._row(stamp, ts_ms, new, self._last.get(id(new.meter)))
            if row is not None:
                self._last[id(new.meter)] = new
                yield row

    def forget(self, retired: Sequence[Meter]) -> None:
        """These will not move again."""
        for meter in retired:
            self._last.pop(id(meter), None)

    def _row(self, stamp: Stamp, ts_ms: int, new: Reading, old: Reading | None) -> ApiRow | None:
        ends = new.outcomes
        if old is not None:
            ends = tuple(map(int.__sub__, ends, old.outcomes))
        upstream_i, upstream_n = _moved(new.upstream, old.upstream if old else None)
        stages = {
            stage: _moved(new.waits.get(stage, []), old.waits.get(stage) if old else None)
            for stage in STAGES
        }
        if not (upstream_i or any(ends) or any(places for places, _ in stages.values())):
            return None
        replied = sum(upstream_n)
        meter = new.meter
        return ApiRow(
            instance=stamp.instance,
            boot=stamp.boot,
            seq=stamp.next_seq("api"),
            ts_ms=ts_ms,
            user=cut(meter.user),
            client_id=cut(meter.client_id),
            api_key=meter.api_key,
            api=meter.name,
            requests=replied + sum(ends),
            replied=replied,
            no_reply=ends[0],
            answered=ends[1],
            expired=ends[2],
            disconnected=ends[3],
            request_bytes=new.request_bytes - (old.request_bytes if old else 0),
            response_bytes=new.response_bytes - (old.response_bytes if old else 0),
            upstream_i=upstream_i,
            upstream_n=upstream_n,
            receive_i=stages["receive"][0],
            receive_n=stages["receive"][1],
            memory_i=stages["memory"][0],
            memory_n=stages["memory"][1],
            throttle_i=stages["throttle"][0],
            throttle_n=stages["throttle"][1],
            purgatory_i=stages["purgatory"][0],
            purgatory_n=stages["purgatory"][1],
        )


def _moved(new: list[int], old: list[int] | None) -> tuple[list[int], list[int]]:
    """The buckets that have grown, and by how much."""
    if old is None:
        places = [place for place, count in enumerate(new) if count]
        return places, [new[place] for place in places]
    if new == old:
        return [], []
    places = [place for place, (now, then) in enumerate(zip(new, old, strict=True)) if now != then]
    return places, [new[place] - old[place] for place in places]
