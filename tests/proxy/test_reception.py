"""How many clients are let in; what becomes of each is shown by the whole proxy (test_app)."""

from __future__ import annotations

import resource

import pytest

from proxy.core.observer import Observer
from proxy.reception import DESCRIPTORS_SPARE, Reception, most_connections
from tests.support.sessions import make_engine
from tests.support.sockets import Bench


@pytest.mark.parametrize(
    ("wanted", "soft", "expected"), [(0, 1064, 495), (10, 1064, 10), (600, 1064, 495), (0, 10, 1)]
)
def test_there_is_room_for_as_many_as_there_are_descriptors_for(
    monkeypatch, wanted, soft, expected
):
    """Two each, after what the rest of the process needs; fewer if fewer are wanted."""
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert DESCRIPTORS_SPARE == 64
    assert most_connections(wanted, others=10) == expected


def test_who_is_connected_counts_from_the_first_moment():
    """So that the limit holds while brokers are being dialled."""
    bench = Bench(make_engine())
    try:
        reception = Reception(bench.engine, bench.hub, None, Observer(), bench.clock, 1)
        assert not reception.is_full
        session = bench.engine.connect("10.0.0.9", 40000, None)
        assert reception.is_full
        reception.most_connections = 2
        assert not reception.is_full
        session.release(0)
    finally:
        bench.close()
