"""Client: each role plays its part until its input ends."""

from __future__ import annotations

import threading

import pytest

from proxy.demo import client
from proxy.demo.client import PRODUCERS, READER, main
from proxy.demo.producers import Producing
from proxy.demo.stage import PRODUCERS as STAGED


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The parts that were played, with stand-ins for the libraries."""
    parts: list[tuple[object, ...]] = []
    monkeypatch.setattr(client, "until_input_ends", threading.Event)
    monkeypatch.setattr(client, "read", lambda *arguments: parts.append(arguments[:3]))
    monkeypatch.setattr(client, "produce", lambda *arguments: parts.append(arguments[:3]))
    for name, manner in PRODUCERS.items():
        stand_in = manner._replace(library=lambda *arguments: arguments)  # type: ignore[arg-type]  # a stand-in
        monkeypatch.setitem(PRODUCERS, name, stand_in)
    return parts


def test_a_reader_reads(played: list[tuple[object, ...]]) -> None:
    """The reader's role reads the topic at the bootstrap address under its name."""
    main([READER, "reader-1", "127.0.0.1:1", "orders-1", "4"])

    assert played == [("reader-1", "127.0.0.1:1", "orders-1")]


@pytest.mark.parametrize("role", PRODUCERS)
def test_a_producer_produces_at_its_own_rate(role: str, played: list[tuple[object, ...]]) -> None:
    """Each producer's role uses its own library and rate."""
    main([role, role, "127.0.0.1:1", "orders-1", "4"])

    ((work, library, rate),) = played
    assert isinstance(work, Producing)
    assert library == (role, "127.0.0.1:1", "orders-1")
    assert rate == PRODUCERS[role].per_second


def test_every_staged_producer_has_a_role() -> None:
    """Whom the stage starts, the client can play."""
    assert set(STAGED) == set(PRODUCERS)
