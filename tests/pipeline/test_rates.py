"""The rates of windows: in numpy as in Spark, and as the quota policy measures them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipeline.rates import WindowIndex, with_window_rate
from policies.quota.rate import SampledRate


def rates_of(rows: list[tuple[int, int, int]]) -> dict[tuple[int, int], float]:
    entity, second, amount = (np.array(column) for column in zip(*rows, strict=True))
    found = WindowIndex(entity, second).rates(amount)
    keys = zip(found.entity.tolist(), found.second.tolist(), strict=True)
    return dict(zip(keys, found.rate.tolist(), strict=True))


@given(st.dictionaries(st.integers(0, 60), st.integers(1, 9), min_size=1))
def test_a_rate_is_the_policys_own_in_the_middle_of_the_second(sent: dict[int, int]) -> None:
    """Kafka's rule, asked half a second after the requests of a second, measures the same."""
    policy = SampledRate()
    found = rates_of([(0, second, amount) for second, amount in sent.items()])
    for second in sorted(sent):
        for _ in range(sent[second]):
            policy.record(1, second * 1000)
        assert abs(policy.measure(second * 1000 + 500) - found[0, second]) < 1e-9


def test_spark_finds_the_same_rates(spark: SparkSession) -> None:
    """An entity is named by any columns; rows of one second are added."""
    rows = [("a", 1_000, 5), ("a", 2_000, 3), ("a", 2_000, 1), ("b", 2_000, 7), ("a", 13_000, 2)]
    frame = spark.createDataFrame(rows, "instance string, ts_ms long, charged long")
    found = {
        (row["instance"], row["second"]): row["rate"]
        for row in with_window_rate(frame, ["instance"], "charged").collect()
    }
    numbered = [(ord(name), ts_ms // 1000, amount) for name, ts_ms, amount in rows]
    assert found == {(chr(name), at): rate for (name, at), rate in rates_of(numbered).items()}
