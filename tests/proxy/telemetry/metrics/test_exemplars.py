"""Exemplars: for each bucket of waits the last request that has a trace."""

import pytest

from proxy.core.stats.request_trace import RequestTrace, Stage
from proxy.telemetry.metrics.exemplars import ExemplarStore
from tests.support.messages.kafka_messages import api_of
from wire.apis import ApiKey

ID = "0123456789abcdef0123456789abcdef"
BEGAN_US = 1_700_000_000_000_000


def trace_of(*waits: tuple[str, int], trace_id: str = ID) -> RequestTrace:
    trace = RequestTrace(BEGAN_US)
    trace.api = api_of(ApiKey.PRODUCE, 9)
    trace.trace_id = trace_id
    trace.stages = [Stage(kind, BEGAN_US, BEGAN_US + us) for kind, us in waits]
    return trace


@pytest.mark.parametrize("kind", ["receive", "memory"])
def test_only_throttle_and_purgatory_have_exemplars(kind: str) -> None:
    """No policy causes the other waits."""
    exemplars = ExemplarStore()
    exemplars.note(trace_of((kind, 300_000)))

    assert not exemplars.copy()


def test_a_request_without_an_exported_trace_leaves_no_exemplar() -> None:
    """It has no trace id."""
    exemplars = ExemplarStore()
    exemplars.note(trace_of(("throttle", 300_000), trace_id=""))

    assert not exemplars.copy()


def test_the_last_exemplar_of_a_bucket_is_kept() -> None:
    """A bucket has one exemplar; each of a request's waits may leave one."""
    exemplars = ExemplarStore()
    for n in range(1000):
        exemplars.note(trace_of(("throttle", 300_000 + n), ("purgatory", 1), trace_id=f"{n:032x}"))

    (kept,) = exemplars.copy()["Produce", "throttle"].values()
    assert kept.trace_id == f"{999:032x}"
    assert list(exemplars.copy()["Produce", "purgatory"]) == [0]


def test_a_copy_of_exemplars_does_not_change() -> None:
    """A page does not change while it is rendered."""
    exemplars = ExemplarStore()
    exemplars.note(trace_of(("throttle", 300_000)))
    copy = exemplars.copy()["Produce", "throttle"]
    exemplars.note(trace_of(("throttle", 3)))

    assert len(copy) == 1
