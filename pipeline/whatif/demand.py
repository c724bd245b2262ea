"""The demand of the clients of each bucket: what they would send if nothing held them up, second by second.

Rules:
- A row that was recorded under a quota counts less than its client would have sent. The time in which connections were
  blocked is taken out: demand = amount / (1 - share of the time lost).
- Enforcement `channel`: the share lost is blocked_ms / (connections * 1000).
- Enforcement `entity`: a client is muted for one interval after each request even if it would have been idle then, so
  only the wait of the request itself is lost: half of what exceeds the interval.
- A client that was blocked for most of a second takes there what it took in the seconds in which it was above its quota
  and not yet blocked (a burst shows what it wants). Without such a second, and blocked all the time, it may want any
  amount more: its demand is `MAX_RAISE` times what it sent, and it is counted as saturated.
- Counts that change from second to second more than those of independent requests come in batches: within a batch the
  client does not think. Counts that hardly change come from a clock. A run of even seconds after a pause is no batch.
- After more than `SESSION_GAP_S` without a row a client begins again on time: what it could not send before is unsent.
- Of a bucket that many clients share the largest are simulated one by one, the others together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

SESSION_GAP_S: Final = 60
MAX_RAISE: Final = 50.0
UNBLOCKED, MOSTLY_BLOCKED, SATURATED = 0.05, 0.5, 0.95
"""Shares of the time of a client's connections: not blocked below the first, mostly blocked from the second on; from
the third on it had no time of its own.
"""
BURST: Final = 1.5
"""A second with so many times what the quota allows shows the demand."""
FEW: Final = 3
"""Of so few seconds above the quota some are not whole; the largest count is taken."""
BATCH_DISPERSION: Final = 1.5
"""A client whose counts vary less sends at random times, one request each; more does not come from chance."""
ENOUGH_PAIRS: Final = 8
"""So many pairs of successive seconds inside of runs tell whether a client sends in batches."""
MAX_CLIENTS_OF_BUCKET: Final = 32
NEVER: Final = 2**60
_SECOND_BITS: Final = 36
NO_QUOTA, ENTITY, CHANNEL = 0, 1, 2
"""The enforcement that a row was recorded under."""


@dataclass(slots=True)
class ClientDemand:
    """The demand of clients, sorted by bucket, client and second. One row more than there are ends the columns."""

    limit: Reals
    """Of each bucket, per second."""
    first_client: Ints
    """The place of each bucket's first client; one more than there are buckets."""
    first_row: Ints
    """The place of each client's first row; one more than there are clients."""
    second: Ints
    amount: Reals
    requests: Reals
    connections: Reals
    session_end: Ints
    """The second after the last one of the row's session."""
    next_session: Ints
    """The place of the first row of the next session of the client; the last row of all if there is none."""
    dispersion: Reals
    """Of each client here: the variance of its counts from second to second, by their mean. Independent requests have
    1, batches about the size of a batch.
    """
    member: Ints
    """For each client that was given: the place of the client that stands for it here."""
    saturated: Reals
    """Of each client here: the share of its rows that were blocked all the time."""

    @property
    def clients(self) -> int:
        """How many clients are simulated."""
        return len(self.first_row) - 1

    @property
    def batch(self) -> Reals:
        """The most requests that a connection of each client sends without a pause."""
        return np.where(self.dispersion < BATCH_DISPERSION, 1.0, self.dispersion)


def demand_of(
    rows: Mapping[str, NDArray[np.generic]],
    bucket_of: Ints,
    limit: Reals,
    max_raise: float = MAX_RAISE,
) -> ClientDemand:
    """Return the demand of clients 0 to len(bucket_of) - 1, at most `max_raise` times what they sent.

    `rows` has the columns client, ts_ms, amount, requests,
    connections, blocked_ms, recorded (the enforcement) and recorded_rate; rows of one client and second are added.
    """
    member = _members(rows, bucket_of)
    client = member[rows["client"].astype(np.int64)]
    second = rows["ts_ms"].astype(np.int64) // 1000
    raise_by, saturated = _raises(rows, len(bucket_of))
    raise_by = np.minimum(raise_by, max_raise)
    amount = rows["amount"].astype(np.float64) * raise_by
    # The reply to a Fetch may come in a later second than the request: its bytes are of one request at least.
    requests = np.maximum(rows["requests"].astype(np.float64), amount > 0) * raise_by
    key = client << _SECOND_BITS | second
    order = None if (np.diff(key) > 0).all() else np.argsort(key, kind="stable")
    if order is not None:  # most tables have their rows in order
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        client, second = client[order][starts], second[order][starts]

    def added(column: Reals) -> Reals:
        return np.append(column if order is None else np.add.reduceat(column[order], starts), 0.0)

    count = int(member.max(initial=-1)) + 1
    first_row = np.searchsorted(client, np.arange(count + 1)).astype(np.int64)
    session_end, next_session = _sessions(client, second)
    rows_of = np.maximum(np.diff(first_row), 1)
    owner = np.zeros(count, np.int64)
    owner[member] = bucket_of
    return ClientDemand(
        limit=limit,
        first_client=np.searchsorted(owner, np.arange(len(limit) + 1)).astype(np.int64),
        first_row=first_row,
        second=np.append(second, NEVER),
        amount=added(amount),
        requests=added(requests),
        connections=np.maximum(added(rows["connections"].astype(np.float64)), 1.0),
        session_end=session_end,
        next_session=next_session,
        dispersion=_dispersion(client, second, added(requests)[:-1], session_end, count),
        member=member,
        saturated=np.bincount(client, added(saturated)[:-1] > 0, count) / rows_of,
    )


def _raises(rows: Mapping[str, NDArray[np.generic]], clients: int) -> tuple[Reals, Reals]:
    """Return by how much each row's client would have sent more, and whether it was blocked all the time."""
    raise_by, saturated = np.ones(len(rows["client"])), np.zeros(len(rows["client"]))
    limited = np.flatnonzero(rows["recorded"] != NO_QUOTA)
    if not len(limited):
        return raise_by, saturated
    client = rows["client"][limited].astype(np.int64)
    recorded, rate = rows["recorded"][limited], rows["recorded_rate"][limited].astype(np.float64)
    requests = np.maximum(rows["requests"][limited].astype(np.float64), 1e-9)
    spent_ms = np.maximum(rows["connections"][limited].astype(np.float64), 1.0) * 1000
    blocked = np.minimum(rows["blocked_ms"][limited].astype(np.float64) / spent_ms, 1.0)
    interval_ms = 1000 / np.where(rate > 0, rate, np.inf)
    waited_ms = np.maximum(blocked * spent_ms / requests - interval_ms, 0.0) / 2
    lost = np.where(recorded == ENTITY, waited_ms * requests / spent_ms, blocked)
    full = blocked >= SATURATED
    wanted = requests / np.maximum(1 - np.where(full, 1.0, lost), 1 / MAX_RAISE)
    # Seconds above the quota in which nothing was blocked yet.
    shows = (requests > BURST * rate) & (blocked < UNBLOCKED)
    shown = np.bincount(client, shows, clients)[client]
    usual = np.bincount(client, requests * shows, clients)[client] / np.maximum(shown, 1)
    most = np.zeros(clients)
    np.maximum.at(most, client, requests * shows)
    usual = np.where(shown <= FEW, most[client], usual)  # some of a few seconds are cut short
    mostly = blocked >= MOSTLY_BLOCKED
    known = np.maximum(np.where(mostly, usual, np.minimum(wanted, usual)), requests)
    raise_by[limited] = np.where(shown > 0, known, wanted) / requests
    saturated[limited] = full & (shown == 0)
    return raise_by, saturated


def _members(rows: Mapping[str, NDArray[np.generic]], bucket_of: Ints) -> Ints:
    """Return for each client the place of the one that stands for it: sorted by bucket, the smallest ones together."""
    clients = len(bucket_of)
    weight = np.bincount(
        rows["client"].astype(np.int64), rows["amount"].astype(np.float64), clients
    )
    order = np.lexsort((-weight, bucket_of))
    sorted_bucket = bucket_of[order]
    fresh = np.ones(clients, bool)
    fresh[1:] = sorted_bucket[1:] != sorted_bucket[:-1]
    begins = np.maximum.accumulate(np.where(fresh, np.arange(clients), 0))
    rank = np.arange(clients) - begins
    place = np.cumsum(fresh | (rank <= MAX_CLIENTS_OF_BUCKET)) - 1
    member = np.empty(clients, np.int64)
    member[order] = place
    return member


def _dispersion(client: Ints, second: Ints, requests: Reals, end: Ints, count: int) -> Reals:
    """Return the dispersion of each client by the differences of successive seconds.

    The first and the last second of a session do not count: its client was not there for all of them. Nor do those of
    a run of seconds without a pause, if what is left of the client's runs is enough to tell; else idle seconds count.
    """
    if not len(client):
        return np.zeros(count)

    def inside(together: Flags) -> Flags:
        inner = np.append(False, together) & np.append(together, False)
        return np.asarray(together & inner[1:] & inner[:-1])

    gap_s = second[1:] - second[:-1]
    of_session = (client[1:] == client[:-1]) & (end[1:-1] == end[:-2])
    of_run = inside(of_session & (gap_s == 1))
    is_enough = np.bincount(client[1:], of_run, count) >= ENOUGH_PAIRS
    same = np.where(is_enough[client[1:]], of_run, inside(of_session))
    before, after, whose = requests[:-1][same], requests[1:][same], client[1:][same]
    squares = np.where(gap_s[same] == 1, (after - before) ** 2, after**2 + before**2)
    variance = np.bincount(whose, squares, count) / 2
    total = np.bincount(whose, (before + after) / 2, count)
    return np.asarray(variance / np.maximum(total, 1e-9))


def _sessions(client: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return for each row the end of its session, and the first row of the next one of its client."""
    rows = len(client)
    if not rows:
        return np.array([NEVER]), np.array([0])
    fresh = np.ones(rows, bool)
    fresh[1:] = (client[1:] != client[:-1]) | (second[1:] - second[:-1] > SESSION_GAP_S)
    starts = np.flatnonzero(fresh)
    session = np.cumsum(fresh) - 1
    lasts = np.append(starts[1:], rows) - 1
    following = np.append(starts[1:], rows)
    same = np.append(client[starts[1:]] == client[starts[:-1]], False)
    after = np.where(same, following, rows)
    return (
        np.append((second[lasts] + 1)[session], NEVER),
        np.append(after[session], rows),
    )
