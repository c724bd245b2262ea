"""Clients: what is acked or consumed is entered, what is not has failed; they report regularly and on command."""

import threading

import pytest

from proxy.demo import clients
from proxy.demo.clients import (
    FLOOD_DEPTH,
    PRODUCERS,
    NumberingProducer,
    main,
    read_value,
    record_value,
)
from proxy.demo.libraries import OnAck
from proxy.demo.processes import (
    Brokers,
    ClientReady,
    ClientResult,
    ClientStatus,
    Command,
    Commands,
    Message,
)

STEADY, FLOOD = PRODUCERS["producer-1"], PRODUCERS["noisy"]


class FakeLibrary:
    """Acks every record at the next `poll`, after `delay_ns`; never those of `unanswered`."""

    def __init__(self, unanswered: frozenset[int] = frozenset(), delay_ns: int = 2_000_000) -> None:
        self.sent: list[tuple[bytes, bytes, int]] = []
        self._waiting: list[tuple[OnAck, int]] = []
        self._unanswered = unanswered
        self._delay_ns = delay_ns

    def send(self, key: bytes, value: bytes, partition: int, on_ack: OnAck) -> None:
        if len(self.sent) not in self._unanswered:
            self._waiting.append((on_ack, read_value(value)[1] + self._delay_ns))
        self.sent.append((key, value, partition))

    def poll(self, seconds: float) -> None:
        waiting, self._waiting = self._waiting, []
        for on_ack, at_ns in waiting:
            on_ack(True, at_ns)

    def flush(self) -> None:
        self.poll(0)

    def requests_per_s(self) -> float:
        return 12.5

    def answered(self) -> tuple[int, int]:
        return 7, 8

    def brokers(self) -> Brokers:
        return {1: "127.0.0.1:1"}


def producer(library: FakeLibrary, partitions: int = 2) -> NumberingProducer:
    """Return a steady producer."""
    return NumberingProducer("noisy", library, partitions, STEADY)


def test_records_are_numbered_per_partition() -> None:
    """Partitions take turns, and the records of each are numbered from zero."""
    library = FakeLibrary()
    made = producer(library, partitions=3)

    for moment in range(7):
        made.send_one(moment)

    places = [(partition, read_value(value)[0]) for _, value, partition in library.sent]
    assert places == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2)]
    assert {len(value) for _, value, _ in library.sent} == {STEADY.record_bytes}
    assert {key for key, _, _ in library.sent} == {b"noisy"}


def test_a_value_is_read_back_from_its_padding() -> None:
    """A record's value of any size carries its number and time."""
    assert read_value(record_value(7, 123_456_789, 100)) == (7, 123_456_789)
    assert len(record_value(7, 1, 100)) == 100


def test_unanswered_records_have_failed() -> None:
    """The result counts acked records, and each unanswered one as failed; producers and partitions are kept apart."""
    made = producer(FakeLibrary(unanswered=frozenset({4})))

    for moment in range(6):
        made.send_one(moment)
    result = made.result()

    assert (result.count, result.failed) == (5, 1)
    assert result.numbers == {"noisy/0": [0, 1], "noisy/1": [0, 1, 2]}


def test_an_experiments_producer_keeps_no_numbers() -> None:
    """Its records are counted, but not listed: there may be millions, and no reader compares them."""
    made = NumberingProducer("noisy", FakeLibrary(), 2, FLOOD)

    made.send_one(0)

    assert (made.result().count, made.result().numbers) == (1, {})


def test_connecting_is_not_in_the_latency() -> None:
    """The warm-up enters one record a partition and no latency; later records have theirs."""
    library = FakeLibrary()
    made = producer(library, partitions=4)

    made.warm_up()
    warm = made.status()
    made.send_one(1_000_000_000)
    library.poll(0)

    assert (warm.acked, warm.latencies_us) == (4, [])
    assert made.status().latencies_us == [2000]


def test_outstanding_records_have_no_answer() -> None:
    """Acked records are not outstanding, unanswered ones are."""
    library = FakeLibrary(unanswered=frozenset({1}))
    made = producer(library)

    for moment in range(3):
        made.send_one(moment)
    sent = made.outstanding
    library.poll(0)

    assert (sent, made.outstanding) == (3, 1)


class FixedCommands(Commands):
    """Commands from a list; standard input ends with the last of them."""

    def __init__(self, *words: Command) -> None:
        self.ended = threading.Event()
        self._words = list(words)

    def maybe_next(self) -> Command | None:
        """Return the next word, one at a time."""
        if len(self._words) <= 1:
            self.ended.set()
        return self._words.pop(0) if self._words else None


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages that a client sends in this test."""
    messages: list[Message] = []
    monkeypatch.setattr(clients, "send", messages.append)
    return messages


def test_a_stopped_producer_sends_its_last_messages(sent: list[Message]) -> None:
    """Ready comes first, the last status and the result at the end, even when it is stopped at once."""
    commands = FixedCommands()
    commands.ended.set()

    NumberingProducer("noisy", FakeLibrary(), 4, FLOOD).run(commands)

    assert [type(message) for message in sent] == [ClientReady, ClientStatus, ClientResult]


def test_a_report_is_sent_on_command(sent: list[Message]) -> None:
    """It has what was acked until then and what the library counted, with both times."""
    NumberingProducer("noisy", FakeLibrary(), 4, FLOOD).run(FixedCommands("start", "report"))

    _, status, _, result = sent
    assert isinstance(status, ClientStatus)
    assert isinstance(result, ClientResult)
    assert (status.answered, status.answered_at_ns) == (7, 8)
    assert status.at_ns > 0
    assert result.failed == 0


def test_a_flood_waits_for_its_command(sent: list[Message]) -> None:
    """Without `start` only the warm-up is sent; with it the whole depth is."""
    quiet, loud = FakeLibrary(), FakeLibrary()

    NumberingProducer("noisy", quiet, 4, FLOOD).run(FixedCommands("report"))
    NumberingProducer("noisy", loud, 4, FLOOD).run(FixedCommands("start"))

    assert (len(quiet.sent), len(loud.sent)) == (4, 4 + FLOOD_DEPTH)


class NoCommands:
    """A standard input without a word."""

    ended = "the end"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The roles that were played, with stand-ins for the libraries."""
    roles: list[tuple[object, ...]] = []
    monkeypatch.setattr(clients, "Commands", NoCommands)
    monkeypatch.setattr("os.nice", lambda niceness: roles.append(("nice", niceness)))
    monkeypatch.setattr(clients, "GroupReader", lambda *arguments: arguments)
    monkeypatch.setattr(clients, "read", lambda *arguments: roles.append(arguments))
    monkeypatch.setattr(
        NumberingProducer, "run", lambda *arguments: roles.append((*arguments, "run"))
    )
    for name, role in PRODUCERS.items():
        stand_in = role._replace(library=lambda *arguments: arguments)  # type: ignore[arg-type]  # a stand-in
        monkeypatch.setitem(PRODUCERS, name, stand_in)
    return roles


def test_a_reader_process_reads(played: list[tuple[object, ...]]) -> None:
    """The reader's role reads the topic at the bootstrap address under its name."""
    main(["reader", "reader-1", "127.0.0.1:1", "orders-1", "4"])

    assert played == [(("reader-1", "127.0.0.1:1", "orders-1"), "the end")]


@pytest.mark.parametrize("name", PRODUCERS)
def test_a_producer_process_plays_its_role(name: str, played: list[tuple[object, ...]]) -> None:
    """Each producer's process uses its own role and priority, and runs under its own name."""
    main([name, name, "127.0.0.1:1", "orders-1", "4"])

    nice, (made, commands, _) = played
    assert nice == ("nice", PRODUCERS[name].niceness)
    assert isinstance(made, NumberingProducer)
    assert (made._library, made._role) == ((name, "127.0.0.1:1", "orders-1"), PRODUCERS[name])
    assert isinstance(commands, NoCommands)


def test_only_the_noisy_producer_floods() -> None:
    """The polite one keeps its rate; the noisy one gets only the CPU that the others leave."""
    assert [name for name, role in PRODUCERS.items() if role.per_second is None] == ["noisy"]
    others = [role.niceness for name, role in PRODUCERS.items() if name != "noisy"]
    assert FLOOD.niceness > max(others)
