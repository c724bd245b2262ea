"""What a producer does: number its records, keep the book of what was acked, tell how it goes.

Rules:
- It writes to every partition in turn and numbers its records per partition (see `ledger`).
- Latency is from handing a record to the library until its acknowledgement is known.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from proxy.demo.figures import Latencies
from proxy.demo.ledger import Ledger, stamp
from proxy.demo.messages import ClientReady, Final, Tick, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.demo.libraries import Library
    from proxy.demo.messages import Cues
    from proxy.demo.pace import Pace

TICK_S = 0.5


class Producing:
    """One producer's work: numbered records, and the book of what was acked."""

    def __init__(self, name: str, library: Library, partitions: int, record_bytes: int) -> None:
        self._name = name
        self._library = library
        self._record_bytes = record_bytes
        self._next = [0] * partitions
        self._turn = 0
        self._acked = Ledger()
        self._sent = 0
        self._latencies = Latencies()
        self.outstanding = 0
        """Sent, and neither acked nor failed."""

    def send_one(self, now_ns: int) -> None:
        """Send the next record to the next partition."""
        partition = self._turn
        self._turn = (partition + 1) % len(self._next)
        sequence = self._next[partition]
        self._next[partition] += 1
        self._sent += 1
        self.outstanding += 1

        def on_ack(acked: bool, at_ns: int) -> None:  # noqa: FBT001 - the libraries' callback
            self.outstanding -= 1
            if acked:
                self._acked.add(self._name, partition, sequence)
                self._latencies.add((at_ns - now_ns) / 1e6)

        value = stamp(sequence, now_ns, self._record_bytes)
        self._library.send(self._name.encode(), value, partition, on_ack)

    def warm_up(self) -> None:
        """Send one record to each partition: connecting is not the latency that is asked for."""
        for _ in self._next:
            self.send_one(time.monotonic_ns())
        self._library.flush()
        self._latencies.take()

    def tick(self) -> Tick:
        """Tell how it goes."""
        answered = self._library.answered()
        return Tick(
            requests_per_s=self._library.requests_per_s(),
            acked=self._acked.count,
            latency=self._latencies.take(),
            at_ns=time.monotonic_ns(),
            answered=answered.requests,
            answered_at_ns=answered.at_ns,
            outstanding=self.outstanding,
        )

    def final(self) -> Final:
        """Wait for what is under way and give the book away; what was never answered has failed."""
        self._library.flush()
        return Final(
            runs=self._acked.runs(),
            out_of_order=self._acked.out_of_order,
            repeated=self._acked.repeated,
            failed=self._sent - self._acked.count,
            brokers=self._library.brokers(),
        )


def produce(
    work: Producing,
    library: Library,
    pace_of: Callable[[], Pace],
    cues: Cues,
    tick_s: float = TICK_S,
) -> None:
    """Send until the stage wants an end, telling how it goes every `tick_s`, and on cue."""
    work.warm_up()
    say(ClientReady())
    pace = pace_of()
    next_tick_s = time.monotonic() + tick_s
    while not cues.ended.is_set():
        library.serve(pace.rest_s)
        while cue := cues.maybe_next():
            pace.cue(cue)
            if cue == "mark":
                say(work.tick())
        now_s = time.monotonic()
        for _ in range(pace.due(now_s, work.outstanding)):
            work.send_one(time.monotonic_ns())
        if now_s >= next_tick_s:
            say(work.tick())
            next_tick_s = now_s + tick_s
    final = work.final()
    say(work.tick())
    say(final)
