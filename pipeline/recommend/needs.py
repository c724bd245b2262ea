"""The need of each user or client id for each kind of limit: the smallest limit that throttles few of its requests.

Rules:
- A limit throttles as the enforcement in force does, in all instances together, because a quota holds in each of them.
- Requests come when they were recorded (`pipeline.whatif.open_loop`): that asks for no less than clients that think
  between requests need, and it is right for those whose work comes at times of its own.
- A name's bucket has all that the policy would count in it: of a user all its client ids, of a client id all its users.
- For users with several client ids there are two more rows: the client id that needs most (role `busiest`), and all
  others together (role `rest`).
- A client that was throttled when it was recorded wants more than it sent (`pipeline.whatif.demand`), but here at most
  MAX_RAISE times as much: rows of a client that was blocked all the time do not say how much.
- `fitted` is the need by the seconds before `fit_until_s` only, for the back-test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from pipeline.whatif.client_rows import NAMES, record_of, records_of
from pipeline.whatif.demand import demand_of
from pipeline.whatif.open_loop import OpenLoop, Trial, smallest_limits
from pipeline.whatif.predict import AMOUNTS, COLUMNS, Candidate
from policies.quota.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from pipeline.whatif.demand import ClientDemand
    from policies.quota.config import QuotaLine

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

Level = Literal["user", "client_id", "both"]
ALL, BUSIEST, REST = "all", "busiest", "rest"
MAX_RAISE: Final = 2.0
USES: Final = {PRODUCER_BYTE_RATE: "produces", CONSUMER_BYTE_RATE: "fetches"}
"""The column that says whether a client has anything to limit."""
_ARROW: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("limit", "role", "user", "client_id")),
        ("client_ids", pa.int64()),
        *((name, pa.float64()) for name in ("value", "fitted", "mean", "max")),
        *((name, pa.int64()) for name in ("seconds", "instances")),
        ("skew", pa.float64()),
    ]
)
SCHEMA: Final = (
    "limit string, role string, user string, client_id string, client_ids long, value double, fitted double, "
    "mean double, max double, seconds long, instances long, skew double"
)
"""`value` is the need, `mean` and `max` are those of the seconds in which something was sent, all per second and
instance; `skew` is what the busiest instance sends, by the mean of all; `user` or `client_id` is null where the level
does not distinguish it.
"""


class Question(NamedTuple):
    """What a need is."""

    level: Level
    limits: tuple[str, ...]
    enforcement: Literal["entity", "channel"]
    burst_seconds: float
    target: float
    """The share of requests that the limit may throttle."""
    fit_until_s: int | None = None

    def columns(self) -> tuple[str, ...]:
        """Return the columns of the family `entity` that are read."""
        amounts = {AMOUNTS[key]: None for key in self.limits}
        return tuple(dict.fromkeys((*COLUMNS, *amounts)))

    def candidate(self, lines: Sequence[QuotaLine]) -> Candidate:
        """Return these limits under the enforcement of the question."""
        return Candidate(lines, self.enforcement, self.burst_seconds)

    def needed(self, loop: OpenLoop, group: Ints) -> Reals:
        """Return the need of each group of the loop's buckets."""
        like = self.candidate(())
        window_s = like.quota_window_size_seconds

        def delayed(loop: OpenLoop, limit: Reals) -> Reals:
            if like.enforcement == "entity":
                return loop.delayed_by_schedule(limit, like.burst_seconds)
            return loop.delayed_by_samples(limit, like.quota_window_num, window_s * 1000)

        windows_s = (like.quota_window_num + 1) * window_s
        at_once_s = like.burst_seconds if like.enforcement == "entity" else windows_s
        return smallest_limits(loop, group, Trial(delayed, at_once_s, self.target))


def needs(packed: DataFrame, question: Question, parts: int) -> DataFrame:
    """Return the needs of every name; columns: SCHEMA.

    `packed` are clients with the columns of the question (`packed_clients`), and with those of USES if bytes are
    limited: 0 if a client never does.
    """
    by = ["user", "client_id"] if question.level == "both" else [question.level]

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = [batch for batch in batches if batch.num_rows]
        if some:
            yield from needs_of(pa.Table.from_batches(some), question).to_batches()

    return packed.repartition(parts, *by).mapInArrow(find, SCHEMA)


def needs_of(packed: pa.Table, question: Question) -> pa.Table:
    """Return the needs of the names in `packed`, which has all rows of each of them."""
    clients = _Clients(packed, question)
    return pa.concat_tables(
        [_ARROW.empty_table(), *(each for key in question.limits for each in clients.needs(key))]
    )


class _Names(NamedTuple):
    """Texts as numbers of distinct values."""

    number: Ints
    texts: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Names:
        """Return the numbers of a column of texts."""
        found = column.combine_chunks().dictionary_encode()
        numbers = found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(numbers, found.dictionary)


class _Found(NamedTuple):
    """The columns of SCHEMA after the names, for some groups."""

    group: Ints
    value: Reals
    fitted: Reals
    mean: Reals
    max: Reals
    seconds: Ints
    instances: Ints
    skew: Reals

    def take(self, which: Ints) -> _Found:
        """Return these groups."""
        return _Found(*(column[which] for column in self))  # type: ignore[arg-type] # columns of both kinds


class _Clients:
    """The rows of all clients, and the numbers of their names. A pair is a user and a client id."""

    def __init__(self, packed: pa.Table, question: Question) -> None:
        self._question = question
        instance, boot, self._user, self._client_id = (
            _Names.of(packed.column(name)) for name in NAMES
        )
        self._boots = max(len(boot.texts), 1)
        self._processes = self._boots * max(len(instance.texts), 1)
        pair = self._user.number * len(self._client_id.texts) + self._client_id.number
        _, self._first, pair_of = np.unique(pair, return_index=True, return_inverse=True)
        process = instance.number * self._boots + boot.number
        client, client_of = np.unique(pair_of * self._processes + process, return_inverse=True)
        self._pair_of, self._process_of = np.divmod(client, self._processes)
        self._name_of = {
            "user": self._user.number,
            "client_id": self._client_id.number,
            "both": pair_of,
        }[question.level][self._first].astype(np.int64)
        self._records, counts = records_of(packed.column("rows"), record_of(question.columns()))
        self._client = np.repeat(client_of, counts)
        self._uses = {
            key: np.repeat(packed.column(USES[key]).to_numpy() > 0, counts)
            for key in question.limits
            if key in USES
        }

    def needs(self, key: str) -> Iterator[pa.Table]:
        """Yield the needs for one kind of limit."""
        demand = self._demand(key)
        name_of = self._name_of
        client_ids = np.bincount(name_of)
        names = self._found(demand, name_of)
        yield self._table(key, ALL, names, names.group, client_ids[names.group])
        several = client_ids[name_of] > 1
        if self._question.level != "user" or not several.any():
            return
        each = self._found(demand, np.where(several, np.arange(len(name_of)), -1))
        owner = name_of[each.group]
        order = np.lexsort((each.group, -each.value, owner))
        is_first = np.diff(owner[order], prepend=-1) > 0
        busiest = each.take(order[is_first])
        yield self._table(key, BUSIEST, busiest, None, np.ones(len(busiest.group)))
        others = order[~is_first]
        other = each.take(others[client_ids[owner[others]] == 2])  # that one is all of the rest
        rests = [other._replace(group=name_of[other.group])]
        is_rest = client_ids[name_of] > 2
        if is_rest.any():
            is_rest[busiest.group] = False
            rests.append(self._found(demand, np.where(is_rest, name_of, -1)))
        for rest in rests:
            yield self._table(key, REST, rest, rest.group, client_ids[rest.group] - 1)

    def _demand(self, key: str) -> ClientDemand:
        rows = {name: self._records[name] for name in self._records.dtype.names or ()}
        rows |= {"client": self._client, "amount": rows[AMOUNTS[key]], "requests": rows["charged"]}
        if key in self._uses:
            rows = {name: column[self._uses[key]] for name, column in rows.items()}
        count = len(self._pair_of)
        return demand_of(rows, np.arange(count), np.ones(count), MAX_RAISE)

    def _found(self, demand: ClientDemand, group_of_pair: Ints) -> _Found:
        """Return the needs of groups of pairs; -1 is no group. A group that sent nothing has none."""
        group = group_of_pair[self._pair_of]
        some = group >= 0
        kept, bucket = np.unique(
            (group * self._processes + self._process_of)[some], return_inverse=True
        )
        bucket_of = np.full(len(group), -1)
        bucket_of[some] = bucket
        loop = OpenLoop.of(demand, bucket_of)
        kept = kept[: loop.buckets]
        groups, owner = np.unique(kept // self._processes, return_inverse=True)
        row_owner = owner[loop.bucket]
        question, count = self._question, len(groups)
        value = question.needed(loop, owner)
        until_s = question.fit_until_s
        fitted = (
            np.full(count, np.nan)
            if until_s is None
            else question.needed(loop.until(until_s), owner)
        )
        total = np.bincount(row_owner, loop.amount, count)
        seconds = np.bincount(row_owner, minlength=count)
        most = np.zeros(count)
        np.maximum.at(most, row_owner, loop.amount)
        instance = kept % self._processes // self._boots
        places, place = np.unique(owner * self._processes + instance, return_inverse=True)
        of_instance = np.bincount(
            place, np.bincount(loop.bucket, loop.amount, len(kept)), len(places)
        )
        owners = places // self._processes
        active = np.bincount(owners, of_instance > 0, count).astype(np.int64)
        busiest = np.zeros(count)
        np.maximum.at(busiest, owners, of_instance)
        skew = busiest * active / np.maximum(total, 1e-9)
        mean = total / np.maximum(seconds, 1)
        found = _Found(groups, value, fitted, mean, most, seconds, active, skew)
        return found.take(np.flatnonzero(seconds > 0))

    def _table(
        self,
        key: str,
        role: str,
        found: _Found,
        names: Ints | None,
        client_ids: NDArray[np.generic],
    ) -> pa.Table:
        """Return the needs of names of the level, or of pairs if there are no names."""
        count, level = len(found.group), self._question.level
        first = self._first[found.group] if names is None or level == "both" else None
        columns = []
        for kind, texts in (("user", self._user), ("client_id", self._client_id)):
            if first is not None:
                columns.append(texts.texts.take(pa.array(texts.number[first])))
            elif level == kind:
                columns.append(texts.texts.take(pa.array(names)))
            else:
                columns.append(pa.nulls(count, pa.string()))
        return pa.table(
            [
                pa.array([key] * count, pa.string()),
                pa.array([role] * count, pa.string()),
                *columns,
                pa.array(np.asarray(client_ids, np.int64)),
                *(pa.array(each, from_pandas=each.dtype.kind == "f") for each in found[1:]),
            ],
            schema=_ARROW,
        )
