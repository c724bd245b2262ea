"""One Kafka client of the demo as a process (`-m proxy.demo.clients`): a producer, or a reader of the consumer group.

Rules:
- Arguments: role, name, bootstrap servers, topic, number of partitions.
- A producer writes to the partitions in turn and numbers its records in each, so that what readers consume can be
  compared with what was acked.
- A producer's latency is from passing a record to the library to its acknowledgement, a reader's from the producer's
  hand to its own. All clocks are this machine's monotonic one.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.habits import HABITS, Habit, HabitPace
from proxy.demo.libraries import GroupReader, KafkaPython, Librdkafka
from proxy.demo.processes import ClientReady, ClientResult, ClientStatus, Commands, send

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

Library = KafkaPython | Librdkafka
STATUS_EVERY_S = 0.5
FLOOD_DEPTH = 4000
_VALUE = struct.Struct(">QQ")


class ProducerRole(NamedTuple):
    """How a producer behaves."""

    library: Callable[[str, str, str], Library]
    """Makes it, for a name, bootstrap servers and a topic."""
    per_second: float | Habit | None
    """Records; None: a flood, see Pace."""
    record_bytes: int
    status_every_s: float = STATUS_EVERY_S
    """Infinite: only when a command asks for it."""
    is_read_back: bool = True
    niceness: int = 0

    def pace(self) -> Pace | HabitPace:
        """Return its clock."""
        wish = self.per_second
        return HabitPace(wish) if isinstance(wish, Habit) else Pace(wish)


PRODUCERS = {
    "producer-1": ProducerRole(KafkaPython, 100, 100),
    "producer-2": ProducerRole(Librdkafka, 2000, 200),
    "polite": ProducerRole(KafkaPython, 200, 100, math.inf, is_read_back=False),
    # At a low priority: on another machine it would not take this machine's CPU from the polite one either.
    "noisy": ProducerRole(
        partial(Librdkafka, batches=False), None, 16_000, math.inf, is_read_back=False, niceness=10
    ),
} | {
    name: ProducerRole(partial(Librdkafka, batches=False), habit, 300, is_read_back=False)
    for name, habit in HABITS.items()
}


def record_value(number: int, produced_at_ns: int, size_bytes: int) -> bytes:
    """Return a record's value: its number, when it was produced, and padding."""
    return _VALUE.pack(number, produced_at_ns).ljust(size_bytes, b".")


def read_value(value: bytes) -> tuple[int, int]:
    """Return the number and the time of a value made by `record_value`."""
    number, produced_at_ns = _VALUE.unpack_from(value)
    return number, produced_at_ns


class Book:
    """The records that one client got acked, or consumed."""

    def __init__(self, *, keeps_numbers: bool = True) -> None:
        self._keeps_numbers = keeps_numbers
        self._latencies_us: list[int] = []
        self.count = 0
        self.numbers: dict[str, list[int]] = {}
        """See ClientResult."""

    def enter(self, producer: str, partition: int, number: int, latency_ns: int) -> None:
        """Enter one record, in the order it was seen."""
        self.count += 1
        self._latencies_us.append(latency_ns // 1000)
        if self._keeps_numbers:
            self.numbers.setdefault(f"{producer}/{partition}", []).append(number)

    def take_latencies_us(self) -> list[int]:
        """Return the latencies entered since the previous call."""
        taken, self._latencies_us = self._latencies_us, []
        return taken


class Pace:
    """When a producer sends: at a fixed rate, or as a flood that keeps `FLOOD_DEPTH` records unanswered.

    A fixed rate catches up after a stall, by at most a tenth of a second's records. A flood runs between the
    commands `start` and `stop`; while it has nothing to send it polls rarely, to leave other processes the CPU.
    """

    def __init__(self, per_second: float | None) -> None:
        self._per_second = per_second
        self._last_s: float | None = None
        self.is_started = False
        self.poll_s = 0.02 if per_second is None else 0.005
        """How long to wait for acknowledgements before the next `due`."""

    def due(self, now_s: float, outstanding: int) -> int:
        """Return how many records to send now; the first call starts the clock of a fixed rate."""
        if self._per_second is None:
            count = max(0, FLOOD_DEPTH - outstanding) if self.is_started else 0
            self.poll_s = 0.001 if count > 1 else 0.02
            return count
        last_s = now_s if self._last_s is None else self._last_s
        count, limit = int((now_s - last_s) * self._per_second), max(1, int(self._per_second / 10))
        self._last_s = now_s if count > limit else last_s + count / self._per_second
        return min(count, limit)


class NumberingProducer:
    """One producer: sends numbered records, keeps the book of what was acked, and reports."""

    def __init__(self, name: str, library: Library, partitions: int, role: ProducerRole) -> None:
        self._name = name
        self._library = library
        self._role = role
        self._next = [0] * partitions
        self._sent = 0
        self._book = Book(keeps_numbers=role.is_read_back)
        self.outstanding = 0
        """Records sent, and neither acked nor failed."""

    def send_one(self, now_ns: int) -> None:
        """Send the next record to the next partition."""
        partition = self._sent % len(self._next)
        number = self._next[partition]
        self._next[partition] += 1
        self._sent += 1
        self.outstanding += 1

        def on_ack(acked: bool, at_ns: int) -> None:  # noqa: FBT001 - the libraries' callback
            self.outstanding -= 1
            if acked:
                self._book.enter(self._name, partition, number, at_ns - now_ns)

        value = record_value(number, now_ns, self._role.record_bytes)
        self._library.send(self._name.encode(), value, partition, on_ack)

    def warm_up(self) -> None:
        """Send one record to each partition, so that no latency includes connecting."""
        for _ in self._next:
            self.send_one(time.monotonic_ns())
        self._library.flush()
        self._book.take_latencies_us()

    def status(self) -> ClientStatus:
        """Return what it has done so far."""
        answered, answered_at_ns = self._library.answered()
        return ClientStatus(
            requests_per_s=self._library.requests_per_s(),
            acked=self._book.count,
            latencies_us=self._book.take_latencies_us(),
            at_ns=time.monotonic_ns(),
            answered=answered,
            answered_at_ns=answered_at_ns,
            outstanding=self.outstanding,
        )

    def result(self) -> ClientResult:
        """Wait for what is outstanding and return the book; records never answered have failed."""
        self._library.flush()
        acked = self._book.count
        return ClientResult(acked, self._sent - acked, self._library.brokers(), self._book.numbers)

    def run(self, commands: Commands) -> None:
        """Send until standard input ends; report regularly, and when a command asks for it."""
        self.warm_up()
        send(ClientReady())
        pace, every_s = self._role.pace(), self._role.status_every_s
        next_status_s = time.monotonic() + every_s
        while not commands.ended.is_set():
            self._library.poll(pace.poll_s)
            while command := commands.maybe_next():
                if command == "report":
                    send(self.status())
                else:
                    pace.is_started = command == "start"
            now_s = time.monotonic()
            for _ in range(pace.due(now_s, self.outstanding)):
                self.send_one(time.monotonic_ns())
            if now_s >= next_status_s:
                send(self.status())
                next_status_s = now_s + every_s
        result = self.result()
        send(self.status())
        send(result)


def read(reader: GroupReader, stop: threading.Event) -> None:
    """Consume until `stop` is set, and report. The reader is ready at its first assignment."""
    book, failed, is_ready = Book(), 0, False
    next_status_s = time.monotonic() + STATUS_EVERY_S
    while not stop.is_set():
        record = reader.maybe_next()
        if record is not None and record.error() is None:
            number, produced_at_ns = read_value(record.value() or b"")
            latency_ns = time.monotonic_ns() - produced_at_ns
            book.enter((record.key() or b"").decode(), record.partition() or 0, number, latency_ns)
        elif record is not None:
            failed += 1
        if not is_ready and reader.is_assigned():
            is_ready = True
            send(ClientReady())
        if (now_s := time.monotonic()) >= next_status_s:
            send(_status(reader, book))
            next_status_s = now_s + STATUS_EVERY_S
    brokers = reader.brokers()
    reader.close()
    send(_status(reader, book))
    send(ClientResult(book.count, failed, brokers, book.numbers))


def _status(reader: GroupReader, book: Book) -> ClientStatus:
    rate, latencies_us = reader.requests_per_s(), book.take_latencies_us()
    return ClientStatus(rate, consumed=book.count, latencies_us=latencies_us)


def main(arguments: list[str]) -> None:
    """Play one role until standard input ends."""
    role, name, bootstrap, topic, partitions = arguments
    commands = Commands()
    if role == "reader":
        read(GroupReader(name, bootstrap, topic), commands.ended)
        return
    played = PRODUCERS[role]
    os.nice(played.niceness)
    library = played.library(name, bootstrap, topic)
    NumberingProducer(name, library, int(partitions), played).run(commands)


if __name__ == "__main__":
    main(sys.argv[1:])
