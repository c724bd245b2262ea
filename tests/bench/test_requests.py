"""The bench of long requests and connections: its frames, its goals, and one short run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench import requests
from bench.figures import Sample, Samples
from bench.replay.frames import (
    Frames,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
    sync_group,
)
from bench.requests import CASES, CONNECTION
from bench.variants import COMPILED, HAPROXY, SLUICE
from wire import apis, codec
from wire.header import body_at, response_body_at


@pytest.mark.parametrize(
    "made",
    [metadata, offset_commit, offset_fetch, join_group, sync_group],
    ids=lambda made: made.__name__,
)
def test_a_request_and_its_reply_are_kafkas(made: Callable[[int], Frames]) -> None:
    """The codec reads both to their last byte, and makes the same bytes of them."""
    request, reply = map(bytearray, made(20))
    api = apis.find(int.from_bytes(request[4:6], "big"), int.from_bytes(request[6:8], "big"))
    assert api is not None
    asked_at = body_at(request, 0, len(request), api.request_header_version)
    answered_at = response_body_at(reply, 0, len(reply), api.response_header_version)
    assert codec.encode(codec.decode_request(api, request[asked_at:])) == request[asked_at:]
    assert codec.encode(codec.decode_response(api, reply[answered_at:])) == reply[answered_at:]


def test_every_case_passes_through_a_proxy_and_costs_it_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short run of the source has a figure for each case, and its section names the goals."""
    monkeypatch.setattr(requests, "WARM_SECONDS", 0.01)
    source = [each for each in requests.variants(None) if each.name == SLUICE]
    samples = requests.measure(source, tmp_path, rounds=1, seconds=0.01)
    assert {each.shape for each in samples.all()} == {case.name for case in CASES}
    assert all(each.requests > 0 and each.cpu_us > 0 for each in samples.all())
    assert "not measured" in requests.section(samples, [SLUICE], {"date": "today"})


def test_a_request_is_compared_with_haproxys_in_the_same_round_and_a_connection_with_a_time() -> (
    None
):
    """A machine that is slow for a round changes no ratio."""
    samples = Samples(
        Sample(case.name, name, nth, 10, 1, 100, cpu_us * (nth + 1), 1, 2)
        for case in CASES
        for name, cpu_us in ((COMPILED, 150), (HAPROXY, 100))
        for nth in range(2)
    )
    *long, connection = requests.goals(samples)
    assert [goal.measured and goal.measured.greatest for goal in long] == [1.5] * (len(CASES) - 1)
    assert CONNECTION.connects
    assert connection.measured is not None
    assert connection.measured.greatest == 300
    assert connection.met
