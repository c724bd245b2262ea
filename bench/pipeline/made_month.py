"""The rows of a fleet of forty teams behind several Sluices, hour by hour, as numpy columns. Every run makes the same.

Rules:
- A team's clients are services (by day and by night), people at work, bursts, jobs of the night and timers. Each has a
  life: some come later, some are gone earlier. Weekends are quiet, and teams live in three time zones.
- Activity is scaled until the month has the rows that were asked for. Who is active and with which counts follows from
  the seed, the instance and the hour only, so hours are made in any order and by any number of processes.
- A row is a key and a second; `seq` and the boot come from the writer (`made_log.py`).
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

TEAMS: Final = 40
CLIENTS_OF_TEAM: Final = 6
CLIENTS: Final = TEAMS * CLIENTS_OF_TEAM
INSTANCES: Final = 4
START_MS: Final = 1_763_683_200_000  # 2025-11-21 00:00 UTC, a Friday
HOUR_S: Final = 3600
DAY_HOURS: Final = 24
SEED: Final = 39
KINDS: Final = ("service", "people", "burst", "night", "timer", "burst")
"""What the clients of a team are."""
_WEIGHT: Final = {"service": 1.0, "people": 0.6, "burst": 0.5, "night": 0.8, "timer": 0.15}
"""How active a kind is in its hours, beside the others."""
ROWS_OF_SECOND: Final = 2.45
"""Rows of all families for a second in which a client is active on an instance: one of `entity`, 1.2 of `api`, and half
of the clients have one of `topic` half of the time.
"""
_TOPIC_SHARE: Final = 0.25
_OTHER_API_SHARE: Final = 0.2
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Columns: TypeAlias = dict[str, Ints | Floats]


@dataclass(frozen=True, slots=True)
class Month:
    """A fleet and its hours; `rows` are those of all families."""

    rows: int
    hours: int
    instances: int = INSTANCES
    active: Floats = field(init=False, repr=False)
    """By client and hour, the share of its seconds in which a client is active on an instance."""

    def __post_init__(self) -> None:
        """Scale the activity to the rows.

        Raises:
            ValueError: the fleet is too small for so many rows a day.
        """
        shape = _shape(self.hours)
        places = np.array([len(homes(client, self.instances)) for client in range(CLIENTS)])
        seconds = (self.rows - self.instance_rows) / ROWS_OF_SECOND
        most = float((shape > 0).T @ places @ np.ones(len(shape.T))) * HOUR_S
        if not 0 < seconds < most / 2:
            raise ValueError(
                f"{self.rows} rows in {self.hours} hours, expected {self.instance_rows} to"
                f" {int(self.instance_rows + most / 2 * ROWS_OF_SECOND)}"
            )
        scale = 1.0
        for _ in range(30):
            active = np.minimum(shape * scale, 1.0)
            scale *= seconds / (float((active.T @ places).sum()) * HOUR_S)
        object.__setattr__(self, "active", active)

    @property
    def instance_rows(self) -> int:
        """Return the rows of the family `instance`: one a second for each process."""
        return self.hours * HOUR_S * self.instances


def homes(client: int, instances: int) -> list[int]:
    """Return the instances that a client connects to."""
    return sorted({(client * 7 + 3 * nth) % instances for nth in range(1 + client % 3)})


def _shape(hours: int) -> Floats:
    """Return how active each client is in each hour, before it is scaled."""
    rng = np.random.default_rng(SEED)
    hour = np.arange(hours)
    rows = []
    for client in range(CLIENTS):
        kind = KINDS[client % CLIENTS_OF_TEAM]
        zone = (0, 8, 16)[client // CLIENTS_OF_TEAM % 3]
        local = (hour + zone) % DAY_HOURS
        day = np.maximum(np.sin((local - 8) / 12 * np.pi), 0)  # light from 8 to 20
        weekend = np.where((hour // DAY_HOURS + 5) % 7 < 2, 0.3, 1.0)  # the first day is a Friday
        curve = {
            "service": 0.4 + 0.6 * day * weekend,
            "people": day * weekend,
            "burst": (0.3 + 0.7 * day) * weekend,
            "night": np.where((local >= 1) & (local < 4), 1.0, 0.0),
            "timer": np.ones(hours),
        }[kind]
        first, last = 0.0, 1.0
        if client % 8 == 5:  # new in the month
            first = rng.uniform(0.1, 0.8)
        if client % 8 == 6:  # gone before its end
            last = rng.uniform(0.2, 0.9)
        alive = (hour >= first * hours) & (hour < last * hours)
        rows.append(curve * alive * _WEIGHT[kind] * rng.lognormal(0, 0.5))
    return np.array(rows)


def hour_of(month: Month, instance: int, hour: int) -> dict[str, Columns]:
    """Return the rows of an instance in an hour by family, sorted by second."""
    rng = np.random.default_rng([SEED, instance, hour])
    seconds, clients = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for client in range(CLIENTS):
        if (share := month.active[client, hour]) > 0 and instance in homes(client, month.instances):
            found = _seconds(rng, KINDS[client % CLIENTS_OF_TEAM], share)
            seconds.append(found)
            clients.append(np.full(len(found), client))
    second = np.concatenate(seconds)
    order = np.argsort(second, kind="stable")
    entity = _entity(rng, np.concatenate(clients)[order], second[order] + hour * HOUR_S, hour)
    return {
        "entity": entity,
        "api": _api(rng, entity),
        "topic": _topic(rng, entity),
        "instance": {"second": np.arange(HOUR_S) + hour * HOUR_S},
    }


def _seconds(rng: np.random.Generator, kind: str, share: float) -> Ints:
    """Return the seconds of an hour in which a client is active."""
    if kind == "burst":
        length = int(rng.integers(20, 300))
        blocks = rng.random(-(-HOUR_S // length)) < share
        return np.flatnonzero(np.repeat(blocks, length)[:HOUR_S])
    if kind == "timer":
        return np.arange(rng.random() / share, HOUR_S, 1 / share).astype(np.int64)
    return np.flatnonzero(rng.random(HOUR_S) < share)


def _entity(rng: np.random.Generator, client: Ints, second: Ints, hour: int) -> Columns:
    """Return the needs and the counts. One client in ten is under a quota that is less than its need by day."""
    rate = 2.0 * 10 ** (1.6 * (client * 37 % CLIENTS) / CLIENTS)
    swing = 0.6 + 0.8 * np.sin(((hour % DAY_HOURS) - 2) / 24 * np.pi)
    need = np.maximum(rng.poisson(rate * swing), 1)
    quota = np.where(client % 10 == 3, np.round(rate, 1), 0.0)
    requests = np.where(quota > 0, np.minimum(need, np.ceil(quota)), need).astype(np.int64)
    over = need > requests
    size = 200 + client * 53 % 2000
    connections = 1 + client % 8
    waited = np.where(over, connections * 1000 * (need - requests) // need, 0)
    return {
        "client": client,
        "second": second,
        "requests": requests,
        "charged": requests,
        "request_bytes": requests * size,
        "charged_bytes": requests * (size - 4),
        "response_bytes": requests * 80,
        "connections": connections,
        "throttled": np.where(over, requests, 0),
        "throttle_ms": waited,
        "throttle_ms_max": waited // connections,
        "blocked_ms": waited,
        "quota_rate": quota,
    }


def _api(rng: np.random.Generator, entity: Columns) -> Columns:
    """Return Produce or Fetch for each row of `entity`, and now and then a Metadata beside it.

    `low` is the first bucket of the histogram of `upstream`; `over` says whether `throttle` has one, 40 buckets later.
    """
    count = len(entity["second"])
    extra = np.flatnonzero(rng.random(count) < _OTHER_API_SHARE)
    row = np.sort(np.concatenate([np.arange(count), extra]))
    other = np.concatenate([np.zeros(1, bool), row[1:] == row[:-1]])[: len(row)]
    client = entity["client"][row]
    requests = np.where(other, 1, entity["requests"][row])
    key = np.where(other, 3, np.where(client % 4 < 3, 0, 1))
    middle = np.choose(key, [88, 132, 84, 84])
    return {
        "client": client,
        "second": entity["second"][row],
        "api_key": key,
        "requests": requests,
        "replied": requests,
        "request_bytes": np.where(other, 60, entity["request_bytes"][row]),
        "response_bytes": requests * 80,
        "low": middle + rng.integers(0, 12, len(row)),
        "over": np.where(other, 0, entity["throttled"][row] > 0).astype(np.int64),
    }


def _topic(rng: np.random.Generator, entity: Columns) -> Columns:
    """Return what some clients send to their topic or read from it."""
    count = len(entity["second"])
    row = np.flatnonzero(rng.random(count) < _TOPIC_SHARE)
    client, requests = entity["client"][row], entity["requests"][row]
    sends = client % 4 < 3
    moved = entity["request_bytes"][row]
    none = np.zeros(len(row), np.int64)
    columns = {"client": client, "second": entity["second"][row]}
    for name, values in {
        "partitions": requests,
        "bytes": moved,
        "batches": requests,
        "records": requests * 12,
    }.items():
        columns[f"produce_{name}"] = np.where(sends, values, none)
        columns[f"fetch_{name}"] = np.where(sends, none, values)
    return columns | {
        "produce_requests": np.where(sends, requests, none),
        "fetch_replies": np.where(sends, none, requests),
    }
