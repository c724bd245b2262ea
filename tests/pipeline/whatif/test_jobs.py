"""The Spark job gives what the arithmetic gives without Spark, however the rows are spread."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.whatif.jobs import check_capture, read_quota_file, whatif, whatif_capture
from pipeline.whatif.predict import Candidate, predict
from pipeline.whatif.simulator import Simulation
from pipeline.whatif.sweep import curve
from policies.quota.config import QuotaLine
from tests.support.pipeline.simulated_clients import (
    capture_rows,
    clients,
    entity_rows,
    poisson,
    quota_config,
)
from tests.support.telemetry.usage_rows import START_MS, client_rows, frame

SECONDS = 20


def test_the_job_its_curve_and_its_captures(spark: SparkSession) -> None:
    """Two instances with three clients, of which two share a bucket: the same rows as without Spark, one stage of
    shuffle, the curve falls with the factor, and captures are checked and simulated.
    """
    sessions = clients(3, poisson(30, 1), 900) + clients(
        2, poisson(30, 2), 900, client_id="d", first=4
    )
    free = Simulation(sessions, quota_config("entity"), START_MS + SECONDS * 1000)
    rows = [
        row | {"instance": instance}
        for row in entity_rows(free, sessions, SECONDS)
        for instance in ("a", "b")
    ]
    lines = [QuotaLine(user="alice", request_rate=40)]
    candidate = Candidate(lines, "channel", factors=(0.5, 1.0, 8.0))
    results = whatif(frame(spark, "entity", rows).repartition(5), candidate).persist()
    found = results.toArrow().to_pylist()

    kinds = {"quota_rate": pa.float64(), "enforcement": pa.string()}
    columns = {
        name: pa.array([r[name] for r in rows], kinds.get(name)) for name in candidate.columns()
    }
    expected = [
        row
        for each in predict(client_rows(pa.table(columns)), candidate)
        for row in each.to_pylist()
    ]
    assert [_rounded(row) for row in sorted(found, key=_key)] == [
        _rounded(row) for row in sorted(expected, key=_key)
    ]

    points = curve(results)
    results.unpersist()
    assert [(p.limit_key, p.factor, p.clients) for p in points] == [
        ("request_rate", 0.5, 4),
        ("request_rate", 1, 4),
        ("request_rate", 8, 4),
    ]
    assert points[0].accepted_share < points[1].accepted_share < points[2].accepted_share == 1
    assert points[0].throttled_share > points[2].throttled_share == 0
    assert points[0].delay_p99_ms > points[2].delay_p99_ms == 0
    assert (points[0].throttled_clients, points[2].throttled_clients) == (4, 0)

    capture = frame(spark, "capture", capture_rows(free, sessions))
    checked = check_capture(capture, Candidate([], "channel")).toArrow().to_pylist()
    assert [(row["different"], row["delayed"]) for row in checked] == [(0, 0)]
    assert checked[0]["requests"] == len(free.passed)
    simulated = whatif_capture(capture, Candidate(lines, "channel")).toArrow().to_pylist()
    by_rows = {row["client_id"]: row for row in found if row["factor"] == 1}
    for row in simulated:
        assert row["accepted_per_s"] == pytest.approx(
            by_rows[row["client_id"]]["accepted_per_s"], rel=0.1
        )


def _key(row: dict[str, Any]) -> tuple[object, ...]:
    return row["instance"], row["client_id"], row["factor"]


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 6) if isinstance(value, float) else value
        for name, value in row.items()
        if name != "delay_n"
    }


def test_a_quota_file_that_cannot_be_used_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Missing, or with a mistake: the path, and what is wrong."""
    with pytest.raises(PipelineError, match=r"nowhere\.yaml cannot be read: .*does not exist"):
        read_quota_file(spark, str(tmp_path / "nowhere.yaml"))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("version: 1\nquotas: [{user: alice, request_rate: -1}]\n")
    with pytest.raises(PipelineError, match=r"(?s)wrong\.yaml is wrong:.*request_rate"):
        read_quota_file(spark, str(wrong))
