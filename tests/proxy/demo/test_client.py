"""Client: each role plays its part until its input ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.demo import client
from proxy.demo.client import PRODUCERS, READER, main
from proxy.demo.pace import Flood, Steady
from proxy.demo.producers import Producing
from proxy.demo.stage import NOISY, POLITE
from proxy.demo.stage import PRODUCERS as STAGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.demo.pace import Pace


class NoCues:
    """A standard input that says nothing."""

    ended = "the end"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The parts that were played, with stand-ins for the libraries."""
    parts: list[tuple[object, ...]] = []
    monkeypatch.setattr(client, "Cues", NoCues)
    monkeypatch.setattr("os.nice", lambda niceness: parts.append(("nice", niceness)))
    monkeypatch.setattr(client, "read", lambda *arguments: parts.append(arguments))
    monkeypatch.setattr(client, "produce", lambda *arguments: parts.append(arguments))
    for name, manner in PRODUCERS.items():
        stand_in = manner._replace(library=lambda *arguments: arguments)  # type: ignore[arg-type]  # a stand-in
        monkeypatch.setitem(PRODUCERS, name, stand_in)
    return parts


def test_a_reader_reads(played: list[tuple[object, ...]]) -> None:
    """The reader's role reads the topic at the bootstrap address under its name."""
    main([READER, "reader-1", "127.0.0.1:1", "orders-1", "4"])

    assert played == [("reader-1", "127.0.0.1:1", "orders-1", "the end")]


@pytest.mark.parametrize("role", PRODUCERS)
def test_a_producer_produces_in_its_own_manner(role: str, played: list[tuple[object, ...]]) -> None:
    """Each producer's role uses its own library and pace, under its own name."""
    main([role, role, "127.0.0.1:1", "orders-1", "4"])

    nice, (work, library, pace_of, cues, tick_s) = played
    assert nice == ("nice", PRODUCERS[role].niceness)
    assert isinstance(work, Producing)
    assert library == (role, "127.0.0.1:1", "orders-1")
    assert isinstance(cues, NoCues)
    assert (pace_of, tick_s) == (PRODUCERS[role].pace_of, PRODUCERS[role].tick_s)


@pytest.mark.parametrize(
    ("pace_of", "kind"), [(PRODUCERS[POLITE].pace_of, Steady), (PRODUCERS[NOISY].pace_of, Flood)]
)
def test_only_the_noisy_one_floods(pace_of: Callable[[], Pace], kind: type[Pace]) -> None:
    """The polite one keeps its rate whatever happens; the noisy one is left what CPU others leave."""
    assert isinstance(pace_of(), kind)
    assert PRODUCERS[NOISY].niceness > max(PRODUCERS[name].niceness for name in (POLITE, *STAGED))


def test_every_staged_producer_has_a_role() -> None:
    """Whom the stage starts, the client can play."""
    assert {*STAGED, POLITE, NOISY} == set(PRODUCERS)
