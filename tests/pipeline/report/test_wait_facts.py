"""The figures of waiting from made-up histograms."""

import pytest
from pyspark.sql import SparkSession

from pipeline.report.facts import ClientName, Wait
from pipeline.report.wait_facts import by_api, by_client, stages_of, waits_of
from pipeline.rollups import unrolled
from pipeline.schema import STAGES
from tests.support.telemetry.usage_rows import frame, usage_row

EDGE_80_MS, EDGE_88_MS = 1.024, 2.048


def test_histograms_are_added_by_api_and_by_client(spark: SparkSession) -> None:
    """Each stage by itself; clients that are not asked for are left out, and so are stages without waits."""
    alice, bob = ClientName("alice", "a"), ClientName("bob", "b")
    waited = {"throttle_i": [80, 88], "throttle_n": [3, 1], "upstream_i": [96], "upstream_n": [4]}
    rows = [
        usage_row("api", user=each.user, client_id=each.client_id, api=api, requests=4, **waited)
        for each, api in ((alice, "Produce"), (alice, "Fetch"), (bob, "Produce"))
    ]
    api = unrolled("api", frame(spark, "api", rows))

    apis = {(each.name, each.stage): each for each in by_api(api)}

    assert apis["Produce", "throttle"].requests == 8
    assert apis["Fetch", "upstream"].requests == 4
    waits = waits_of("client", by_client(api, {alice: "alice"}))
    assert waits == (Wait("throttle", "client", "alice", 8, EDGE_80_MS, EDGE_88_MS, EDGE_88_MS),)
    assert by_client(api, {}) == []
    times = {(each.api, each.stage): each.total_ms for each in stages_of(list(apis.values()))}
    produced = 6 * EDGE_80_MS + 2 * EDGE_88_MS
    assert times["Produce", "throttle"] == pytest.approx(produced, rel=0.05)
    assert {stage for _, stage in times} <= set(STAGES)
