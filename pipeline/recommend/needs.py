"""The needs of each user or client id: percentiles of its window rates, for each kind of limit.

Rules:
- Percentiles are over all windows of all instances together, because a quota holds in each of them; nearest rank, so a
  value is a rate that occurred.
- A name's windows sum up all that one bucket would count: of a user all its client ids, of a client id all its users.
- For users with several client ids there are two more rows: the client id that needs most (role `busiest`), and all
  others together (role `rest`).
- `fitted` is the same percentile from the windows before `fit_until_s` only, for the back-test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from pipeline.rates import WindowIndex
from pipeline.recommend.packed import RECORD, Names
from pipeline.recommend.spread import Spread
from pipeline.whatif.client_rows import records_of
from policies.quota.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    Ints = NDArray[np.int64]
    Reals = NDArray[np.float64]

Level = Literal["user", "client_id", "both"]
ALL, BUSIEST, REST = "all", "busiest", "rest"
SCHEMA: Final = (
    "limit string, role string, user string, client_id string, client_ids long, value double, "
    "fitted double, p50 double, p99 double, p999 double, max double, windows long, instances long, "
    "skew double, total double"
)
"""`value` is the asked percentile, per second as all rates are; `skew` is what the busiest instance sends, by the mean
of all; `total` the amount; `user` or `client_id` is null where the level does not distinguish it.
"""
_ARROW: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("limit", "role", "user", "client_id")),
        ("client_ids", pa.int64()),
        *((name, pa.float64()) for name in ("value", "fitted", "p50", "p99", "p999", "max")),
        *((name, pa.int64()) for name in ("windows", "instances")),
        *((name, pa.float64()) for name in ("skew", "total")),
    ]
)


class Question(NamedTuple):
    """The level, the limits and the percentile of the needs."""

    level: Level
    limits: tuple[str, ...]
    percentile: float
    """From 0 to 100."""
    fit_until_s: int


def needs(packed: DataFrame, question: Question, parts: int) -> DataFrame:
    """Return the needs of every name; columns: SCHEMA.

    `packed` is that of `pipeline.recommend.packed` with columns `produces` and `fetches`: 0 if a client never does.
    """
    by = ["user", "client_id"] if question.level == "both" else [question.level]

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = [batch for batch in batches if batch.num_rows]
        if some:
            yield from needs_of(pa.Table.from_batches(some), question).to_batches()

    return packed.repartition(parts, *by).mapInArrow(find, SCHEMA)


def needs_of(packed: pa.Table, question: Question) -> pa.Table:
    """Return the needs of the names in `packed`, which has all rows of each of them."""
    clients = _Clients(packed, question.level)
    found = list(_needs(clients, question))
    return pa.concat_tables(found) if found else _ARROW.empty_table()


class _Clients:
    """The records of all clients, and the numbers of their names."""

    def __init__(self, packed: pa.Table, level: Level) -> None:
        records, counts = records_of(packed.column("records"), RECORD)
        self.records = records
        for key, use in ((PRODUCER_BYTE_RATE, "produces"), (CONSUMER_BYTE_RATE, "fetches")):
            records[key][np.repeat(packed.column(use).to_numpy() == 0, counts)] = 0
        self.user, self.client_id, instance = (
            Names.of(packed.column(name)) for name in ("user", "client_id", "instance")
        )
        pair = self.user.number * len(self.client_id.texts) + self.client_id.number
        self.pairs, first, pair_of_row = np.unique(pair, return_index=True, return_inverse=True)
        self.name_of_pair = {
            "user": self.user.number,
            "client_id": self.client_id.number,
            "both": pair_of_row,
        }[level][first].astype(np.int64)
        self.first_row = first
        self.level = level
        self.instances = len(instance.texts)
        self.pair_of = np.repeat(pair_of_row, counts)
        self.instance_of = np.repeat(instance.number, counts)

    def texts(self, names: Ints | None, pairs: Ints | None) -> tuple[pa.Array, pa.Array]:
        """Return users and client ids: of names of the level, or of pairs."""
        if pairs is None and names is not None:
            if self.level == "user":
                return self.user.texts.take(pa.array(names)), pa.nulls(len(names), pa.string())
            if self.level == "client_id":
                return pa.nulls(len(names), pa.string()), self.client_id.texts.take(pa.array(names))
            pairs = names
        rows = self.first_row[pairs]
        return (
            self.user.texts.take(pa.array(self.user.number[rows])),
            self.client_id.texts.take(pa.array(self.client_id.number[rows])),
        )

    def spreads(
        self, group_of_pair: Ints, which: NDArray[np.bool_], question: Question
    ) -> Iterator[tuple[str, Spread]]:
        """Yield each limit and how the window rates of groups of pairs spread; only of the pairs that are asked for."""
        pair, records, instance = self.pair_of, self.records, self.instance_of
        if not which.all():
            some = which[pair]
            pair, records, instance = pair[some], records[some], instance[some]
        entity = group_of_pair[pair] * self.instances + instance
        index = WindowIndex(entity, records["second"])
        for limit in question.limits:
            yield (
                limit,
                Spread.of(
                    index.rates(records[limit]),
                    self.instances,
                    question.percentile,
                    question.fit_until_s,
                ),
            )


def _needs(clients: _Clients, question: Question) -> Iterator[pa.Table]:
    name_of = clients.name_of_pair
    pairs = np.arange(len(name_of))
    everyone = np.ones(len(pairs), bool)
    client_ids = np.bincount(name_of)
    for limit, names in clients.spreads(name_of, everyone, question):
        texts = clients.texts(names.group, None)
        yield _table(limit, ALL, names, texts, client_ids[names.group])
    several = client_ids[name_of] > 1
    if clients.level != "user" or not several.any():
        return
    for limit, each in clients.spreads(pairs, several, question):
        owner = name_of[each.group]
        order = np.lexsort((each.group, -each.value, owner))
        is_first = np.diff(owner[order], prepend=-1) > 0
        busiest = each.take(order[is_first])
        texts = clients.texts(None, busiest.group)
        yield _table(limit, BUSIEST, busiest, texts, np.ones(len(busiest.group)))
        others = order[~is_first]
        other = each.take(others[client_ids[owner[others]] == 2])  # that one is all of the rest
        rests = [other._replace(group=name_of[other.group])]
        is_rest = client_ids[name_of] > 2
        if is_rest.any():
            is_rest[busiest.group] = False
            one = question._replace(limits=(limit,))
            rests += [rest for _, rest in clients.spreads(name_of, is_rest, one)]
        for rest in rests:
            texts = clients.texts(rest.group, None)
            yield _table(limit, REST, rest, texts, client_ids[rest.group] - 1)


def _table(
    limit: str,
    role: str,
    spread: Spread,
    names: tuple[pa.Array, pa.Array],
    client_ids: Sequence[int] | NDArray[np.generic],
) -> pa.Table:
    count = len(spread.group)
    user, client_id = names
    columns = [
        pa.array([limit] * count, pa.string()),
        pa.array([role] * count, pa.string()),
        user,
        client_id,
        pa.array(np.asarray(client_ids, np.int64)),
        *(pa.array(column, from_pandas=column.dtype.kind == "f") for column in spread[1:]),
    ]
    return pa.table(columns, schema=_ARROW)
