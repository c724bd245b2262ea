"""Made-up rows of the usage log: 400 users and client ids on four instances. Every run makes the same rows.

Half of the clients are steady, half come in bursts; one in ten is under a quota that is less than its need. All values
are hashes of (entity, instance, second), so Spark makes the rows in parallel and in the order in which tables are kept.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pipeline.schema import API, ENTITY

ENTITIES: Final = 400
INSTANCES: Final = 4
START_MS: Final = 1_763_683_200_000  # 2025-11-21 00:00 UTC
HOUR_S: Final = 3600
STEADY_SHARE: Final = 0.95
BURSTY_SHARE: Final = 0.45
"""The share of its seconds in which a client is active; a burst lasts 20 to 300 s."""
ROWS_PER_SECOND: Final = ENTITIES * INSTANCES * (STEADY_SHARE + BURSTY_SHARE) / 2


def _share(salt: int, *of: str) -> str:
    """Return an expression for an even number in [0, 1) that depends on these columns."""
    return f"(pmod(xxhash64({', '.join(of)}, {salt}), 1048576) / 1048576D)"


def _whole(salt: int, below: int, *of: str) -> str:
    """Return an expression for an even whole number in [0, below)."""
    return f"pmod(xxhash64({', '.join(of)}, {salt}), {below})"


_EACH: Final = ("entity", "node", "second")
_NOISE: Final = f"({_share(1, *_EACH)} + {_share(2, *_EACH)} + {_share(3, *_EACH)} - 1.5D) * 2"
"""About normal, with variance 1."""


def seconds_of(entity_rows: int) -> int:
    """Return how many seconds have about so many rows of the family `entity`."""
    return round(entity_rows / ROWS_PER_SECOND)


def demand(spark: SparkSession, first_s: int, last_s: int, parts: int) -> DataFrame:
    """Return what each client needs in each of its active seconds, sorted by entity, instance and second."""
    seconds = last_s - first_s
    return (
        spark.range(0, ENTITIES * INSTANCES * seconds, 1, parts)
        .selectExpr(
            f"cast(id div {INSTANCES * seconds} as int) as entity",
            f"cast((id div {seconds}) % {INSTANCES} as int) as node",
            f"cast(id % {seconds} as int) + {first_s} as second",
        )
        .selectExpr("*", "entity % 2 = 1 as bursty", f"20 + {_whole(4, 281, 'entity')} as burst_s")
        .selectExpr("*", f"(second + {_whole(5, 300, 'entity', 'node')}) div burst_s as burst")
        .where(
            f"if(bursty, {_share(6, 'entity', 'node', 'burst')} < {BURSTY_SHARE},"
            f" {_share(7, *_EACH)} < {STEADY_SHARE})"
        )
        .selectExpr(
            "*",
            f"2 * pow(10, 1.6 * {_share(8, 'entity')}) as rate",
            f"cast(1 + {_whole(9, 8, 'entity', 'node')} as int) as connections",
            f"if(bursty, 0.5 + 3 * {_share(10, 'entity', 'node', 'burst')},"
            f" 0.8 + 0.4 * {_share(11, 'entity', 'node')}) as swing",
        )
        .selectExpr(
            "*",
            f"greatest(1, round(rate * swing + sqrt(rate * swing) * {_NOISE})) as need",
            "if(entity % 10 = 3, round(rate, 1), null) as quota",
        )
        .selectExpr("*", "cast(least(need, ceil(coalesce(quota, need))) as bigint) as n")
        .selectExpr("*", "need > n as is_over", "n / need as passed")
    )


_HEAD: Final = """
    '{family}' as family, 1 as v, concat('pod-', node) as instance, '0000000000000001' as boot,
    (second * {per_second} + entity * {per_entity} + {place}) as seq,
    {start} + second * 1000L as ts_ms, 1000 as window_ms,
    concat('user-', lpad(cast(entity div 2 as string), 3, '0')) as user,
    concat('app-', lpad(cast(entity as string), 3, '0')) as client_id
"""


def _head(family: str, per_entity: int, place: str) -> str:
    per_second = ENTITIES * per_entity
    return _HEAD.format(
        family=family, per_second=per_second, per_entity=per_entity, place=place, start=START_MS
    )


def entity_rows(need: DataFrame) -> DataFrame:
    """Return the rows of the family `entity`. `seq` is unique and has gaps: it counts what is not active, too."""
    columns = f"""
        {_head("entity", 1, "1")},
        n + exempt as requests, n as charged, exempt,
        (n + exempt) * size as request_bytes, n * (size - 4) as charged_bytes,
        exempt * (size - 4) as exempt_bytes, n * 80 as response_bytes, connections,
        if(is_over, n, 0L) as throttled,
        if(is_over, cast(connections * 1000 * (1 - passed) as bigint), 0L) as throttle_ms,
        if(is_over, cast(1000 * (1 - passed) as bigint), 0L) as throttle_ms_max,
        if(is_over, cast(connections * 1000 * (1 - passed) as bigint), 0L) as blocked_ms,
        0L as mute_ms,
        if(quota is null, null, 'entity') as enforcement,
        if(quota is null, null, concat('user=user-', lpad(cast(entity div 2 as string), 3, '0')))
            as quota_entity,
        quota as quota_rate, if(quota is null, null, '0a1b2c3d') as quota_rev
    """
    made = need.selectExpr(
        "*",
        f"200 + {_whole(12, 2000, 'entity')} as size",
        f"if({_whole(13, 50, *_EACH)} = 0, 1L, 0L) as exempt",
    )
    return _with_schema(made, columns, ENTITY)


def api_rows(need: DataFrame) -> DataFrame:
    """Return the rows of the family `api`: Produce or Fetch, and now and then a Heartbeat or a Metadata.

    A histogram has up to five buckets: around 3 ms for Produce, around 100 ms for Fetch.
    """
    apis = """filter(array(
        if(entity % 4 < 3, struct(0 as api_key, 'Produce' as api, n as count, 88 as middle),
                           struct(1 as api_key, 'Fetch' as api, n as count, 132 as middle)),
        struct(12 as api_key, 'Heartbeat' as api,
               if(entity % 4 = 3 and second % 3 = 0, 1L, 0L) as count, 80 as middle),
        struct(3 as api_key, 'Metadata' as api,
               if(pmod(second + entity, 30) = 0, 1L, 0L) as count, 84 as middle)
    ), a -> a.count > 0)"""
    made = (
        need.selectExpr("*", f"200 + {_whole(12, 2000, 'entity')} as size")
        .selectExpr("*", f"inline({apis})")
        .selectExpr("*", f"middle + cast({_whole(14, 12, *_EACH)} as int) as low")
        .selectExpr("*", "cast(least(count, 5L) as int) as buckets")
        .selectExpr(
            "*",
            "sequence(low, low + buckets - 1) as indexes",
            "transform(sequence(0, buckets - 1),"
            " b -> count div buckets + if(b < count % buckets, 1L, 0L)) as counts",
        )
    )
    no_times = "cast(array() as array<int>)", "cast(array() as array<bigint>)"
    columns = f"""
        {_head("api", 4, "1 + api_key % 4")},
        api_key, api, count as requests, count as replied, 0L as no_reply, 0L as answered,
        0L as expired, 0L as disconnected, count * size as request_bytes,
        count * 80 as response_bytes, indexes as upstream_i, counts as upstream_n,
        {no_times[0]} as receive_i, {no_times[1]} as receive_n,
        {no_times[0]} as memory_i, {no_times[1]} as memory_n,
        if(is_over, transform(indexes, i -> i + 40), {no_times[0]}) as throttle_i,
        if(is_over, counts, {no_times[1]}) as throttle_n,
        {no_times[0]} as purgatory_i, {no_times[1]} as purgatory_n
    """
    return _with_schema(made, columns, API)


def _with_schema(made: DataFrame, columns: str, schema: StructType) -> DataFrame:
    rows = made.sparkSession.sql(f"select {columns} from {{made}}", made=made)  # noqa: S608 - texts of this module
    return rows.select(*(rows[field.name].cast(field.dataType) for field in schema))
