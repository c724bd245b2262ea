"""Recommended limits of five shapes of clients, against the quota policy itself in virtual time."""

from math import ceil

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.recommend.needs import Question, needs_of
from pipeline.recommend.rules import Sizing
from pipeline.schema import ENTITY
from pipeline.whatif.client_rows import pack_rows
from pipeline.whatif.script import ClientSession
from pipeline.whatif.simulator import Simulation
from policies.quota.entity import REQUEST_RATE
from tests.support.pipeline.simulated_clients import entity_rows, quota_config, timed_clients
from tests.support.telemetry.usage_rows import START_MS, Row

SECONDS = 160
SHAPES = {
    "steady": [20.0] * SECONDS,
    "bursty": [60.0 if second % 10 < 4 else 0.0 for second in range(SECONDS)],
    "ramp": [5 + 45 * second / SECONDS for second in range(SECONDS)],
    "night": [80.0 if second % 80 < 15 else 2.0 for second in range(SECONDS)],
    "catch-up": [50.0 if second < 40 else 8.0 for second in range(SECONDS)],
}
"""The requests of each second."""
ENFORCEMENTS = ["entity", "channel"]
TARGET = 0.01


def run(sessions: list[ClientSession], enforcement: str, limit: float | None) -> Simulation:
    """Let the clients run until all is sent."""
    quotas = [] if limit is None else [{"user": "alice", "request_rate": limit}]
    ends_ms = START_MS + 4 * SECONDS * 1000
    return Simulation(sessions, quota_config(enforcement, *quotas), ends_ms)


def throttled_share(simulation: Simulation) -> float:
    return sum(each.delay_ms > 0 for each in simulation.passed) / len(simulation.passed)


def need(rows: list[Row], enforcement: str) -> float:
    question = Question("user", (REQUEST_RATE,), enforcement, 2.0, TARGET)  # type: ignore[arg-type] # one of two
    columns = question.columns()
    schema = pa.schema([to_arrow_schema(ENTITY).field(name) for name in columns])
    table = pa.table([[row[name] for row in rows] for name in columns], schema=schema)
    packed = pa.Table.from_batches([pack_rows(table)])
    (found,) = needs_of(packed, question).to_pylist()
    return float(found["value"])


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_recommended_limit_throttles_few_requests_and_is_not_much_above_the_need(
    shape: str, enforcement: str, *, thinks: bool
) -> None:
    """Whether clients think between requests, or work comes at times of its own."""
    sessions = timed_clients(SHAPES[shape], 3, thinks=thinks)
    rows = entity_rows(run(sessions, enforcement, None), sessions, SECONDS)
    found = need(rows, enforcement)
    limit = Sizing().limit(REQUEST_RATE, found)
    assert throttled_share(run(sessions, enforcement, limit)) <= TARGET
    assert throttled_share(run(sessions, enforcement, float(ceil(found * 0.85)))) > TARGET


@pytest.mark.parametrize("recorded", ENFORCEMENTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_need_is_estimated_from_rows_of_half_of_it(shape: str, recorded: str) -> None:
    """What the rows of a throttled client say is not far from its need; doubling in vain takes one more round."""
    sessions = timed_clients(SHAPES[shape], 3)
    truth = need(entity_rows(run(sessions, recorded, None), sessions, SECONDS), "entity")
    quota = {"enforcement": recorded, "quota_rate": truth / 2}
    rows = entity_rows(run(sessions, recorded, truth / 2), sessions, 2 * SECONDS, **quota)
    assert 0.7 * truth < need(rows, "entity") < 2.2 * truth
