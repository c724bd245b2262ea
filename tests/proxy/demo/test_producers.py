"""Producers: what is acked is entered, what is not has failed; they tell how it goes, and on cue."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from proxy.demo import producers
from proxy.demo.ledger import read_stamp
from proxy.demo.libraries import Answered
from proxy.demo.messages import ClientReady, Cues, Final, Message, Tick
from proxy.demo.pace import Flood
from proxy.demo.producers import Producing, produce

if TYPE_CHECKING:
    import pytest

    from proxy.demo.libraries import OnAck
    from proxy.demo.messages import Brokers, Cue


class FakeLibrary:
    """Acks every record at the next `serve`, after `delay_ns`; drops those of `unanswered`."""

    def __init__(self, unanswered: frozenset[int] = frozenset(), delay_ns: int = 2_000_000) -> None:
        self.sent: list[tuple[bytes, bytes, int]] = []
        self._waiting: list[tuple[OnAck, int]] = []
        self._unanswered = unanswered
        self._delay_ns = delay_ns

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        """Remember it."""
        if len(self.sent) not in self._unanswered:
            self._waiting.append((on_ack, read_stamp(value)[1] + self._delay_ns))
        self.sent.append((key, value, partition))

    def serve(self, seconds: float) -> None:
        """Ack what waits; no time passes."""
        waiting, self._waiting = self._waiting, []
        for on_ack, at_ns in waiting:
            on_ack(True, at_ns)

    def flush(self) -> None:
        """Ack what waits."""
        self.serve(0)

    def requests_per_s(self) -> float:
        """Return a figure of its own."""
        return 12.5

    def answered(self) -> Answered:
        """Return a count of its own."""
        return Answered(7, 8)

    def brokers(self) -> Brokers:
        """Return one broker."""
        return {1: "127.0.0.1:1"}


def test_records_are_numbered_per_partition() -> None:
    """Partitions take turns, and each one's records are numbered from nought."""
    library = FakeLibrary()
    work = Producing("noisy", library, partitions=3, record_bytes=40)

    for moment in range(7):
        work.send_one(moment)

    places = [(partition, read_stamp(value)[0]) for _, value, partition in library.sent]
    assert places == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    assert {len(value) for _, value, _ in library.sent} == {40}
    assert {key for key, _, _ in library.sent} == {b"noisy"}


def test_what_was_never_answered_has_failed() -> None:
    """The last word counts acked records, and each unanswered one as failed."""
    work = Producing("noisy", FakeLibrary(unanswered=frozenset({4})), 2, 40)

    for moment in range(6):
        work.send_one(moment)
    final = work.final()

    assert final.failed == 1
    assert {(p, n): runs for p, n, runs in final.runs} == {
        ("noisy", 0): [(0, 1)],
        ("noisy", 1): [(0, 2)],
    }
    assert work.tick().acked == 5


def test_connecting_is_not_in_the_latency() -> None:
    """The warm-up enters one record a partition and no latency; later records have theirs."""
    library = FakeLibrary()
    work = Producing("polite", library, 4, 40)

    work.warm_up()
    warm = work.tick()
    work.send_one(1_000_000_000)
    library.serve(0)

    assert (warm.acked, warm.latency) == (4, {})
    assert sum(work.tick().latency.values()) == 1


class Told(Cues):
    """Cues from a list; the end comes with the last of them."""

    def __init__(self, *words: Cue) -> None:
        self.ended = threading.Event()
        self._words = list(words)

    def maybe_next(self) -> Cue | None:
        """Return the next word, one a turn."""
        if len(self._words) <= 1:
            self.ended.set()
        return self._words.pop(0) if self._words else None


def said_by(cues: Cues, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """Return what a flooding producer with these cues says."""
    said: list[Message] = []
    monkeypatch.setattr(producers, "say", said.append)
    work = Producing("noisy", library, 4, 40)
    produce(work, library, lambda: Flood(depth=8), cues, tick_s=math.inf)
    return said


def test_a_stopped_producer_says_all_it_has_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready first, the last tick and the last word at the end, even when stopped at once."""
    cues = Told()
    cues.ended.set()

    said = said_by(cues, FakeLibrary(), monkeypatch)

    assert [type(message) for message in said] == [ClientReady, Tick, Final]


def test_a_mark_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On cue it says what was acked until then and what its library counted, with both times."""
    library = FakeLibrary()

    said = said_by(Told("go", "mark"), library, monkeypatch)

    ready, mark, _, final = said
    assert isinstance(ready, ClientReady)
    assert isinstance(mark, Tick)
    assert isinstance(final, Final)
    assert (mark.answered, mark.answered_at_ns) == (7, 8)
    assert mark.at_ns > 0
    assert final.failed == 0


def test_it_floods_on_cue_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `go` nothing but the warm-up is sent; with it the depth is."""
    quiet, loud = FakeLibrary(), FakeLibrary()

    said_by(Told("mark"), quiet, monkeypatch)
    said_by(Told("go"), loud, monkeypatch)

    assert (len(quiet.sent), len(loud.sent)) == (4, 4 + 8)


def test_outstanding_is_what_has_no_answer() -> None:
    """Acked and failed records are not outstanding, unanswered ones are."""
    library = FakeLibrary(unanswered=frozenset({1}))
    work = Producing("noisy", library, 2, 40)

    for moment in range(3):
        work.send_one(moment)
    sent = work.outstanding
    library.serve(0)

    assert (sent, work.outstanding) == (3, 1)
