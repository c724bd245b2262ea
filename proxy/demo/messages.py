"""What the processes of the demo tell its stage, one JSON object a line on standard output; and what
the stage tells them, one word a line on standard input.

Rules:
- Counters are totals since the start; a latency histogram holds what came since the last Tick.
- A process ends when its standard input does, so it never outlives the stage.
"""

from __future__ import annotations

import sys
import threading
from queue import SimpleQueue
from typing import Literal, get_args

from msgspec import Struct, json

Brokers = dict[int, str]
"""Node id to `host:port`."""
Cue = Literal["go", "rest", "mark"]
"""Flood, stop flooding, and: tell a Tick now."""


class ClusterReady(Struct, frozen=True, tag="cluster_ready"):
    """The embedded cluster listens; every broker leads a partition of `topic`."""

    brokers: Brokers
    topic: str
    partitions: int


class ClientReady(Struct, frozen=True, tag="client_ready"):
    """A producer knows its topic, or a reader has its first assignment."""


class Tick(Struct, frozen=True, tag="tick"):
    """How a client is doing. Times are nanoseconds of its monotonic clock."""

    requests_per_s: float = 0.0
    acked: int = 0
    consumed: int = 0
    latency: dict[int, int] = {}
    at_ns: int = 0
    answered: int = 0
    """Requests answered, as its library counts them; 0 if it does not."""
    answered_at_ns: int = 0
    """When the library counted."""
    outstanding: int = 0
    """Records sent, and neither acked nor failed."""


class Final(Struct, frozen=True, tag="final"):
    """A client's last word: its books (see `Ledger`) and the brokers its metadata named."""

    runs: list[tuple[str, int, list[tuple[int, int]]]]
    out_of_order: int
    repeated: int
    failed: int
    brokers: Brokers


Message = ClusterReady | ClientReady | Tick | Final

_encoder = json.Encoder()
_decoder: json.Decoder[Message] = json.Decoder(Message)


def say(message: Message) -> None:
    """Write one message and push it out."""
    sys.stdout.buffer.write(_encoder.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def hear(line: bytes) -> Message:
    """Read one message. Raises msgspec.DecodeError on anything else."""
    return _decoder.decode(line)


class Cues:
    """The stage's words, as they come in; words that nobody knows are passed over."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        """Standard input has ended: the stage wants us to end, too, or is gone."""
        self._waiting: SimpleQueue[Cue] = SimpleQueue()
        threading.Thread(target=self._hear, name="stdin", daemon=True).start()

    def maybe_next(self) -> Cue | None:
        """Return the oldest word that was not taken yet."""
        return None if self._waiting.empty() else self._waiting.get()

    def _hear(self) -> None:
        known: dict[bytes, Cue] = {cue.encode(): cue for cue in get_args(Cue)}
        for line in sys.stdin.buffer:
            if cue := known.get(line.strip()):
                self._waiting.put(cue)
        self.ended.set()
