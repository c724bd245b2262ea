"""What the processes of the demo tell its stage: one JSON object a line on standard output.

Rules:
- Counters are totals since the start; a latency histogram holds what came since the last Tick.
- A process ends when its standard input does, so it never outlives the stage.
"""

from __future__ import annotations

import sys
import threading

from msgspec import Struct, json

Brokers = dict[int, str]
"""Node id to `host:port`."""


class ClusterReady(Struct, frozen=True, tag="cluster_ready"):
    """The embedded cluster listens; every broker leads a partition of `topic`."""

    brokers: Brokers
    topic: str
    partitions: int


class ClientReady(Struct, frozen=True, tag="client_ready"):
    """A producer knows its topic, or a reader has its first assignment."""


class Tick(Struct, frozen=True, tag="tick"):
    """How a client is doing."""

    requests_per_s: float = 0.0
    acked: int = 0
    consumed: int = 0
    latency: dict[int, int] = {}


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


def until_input_ends() -> threading.Event:
    """Return an event that is set when standard input ends: the stage wants us to, or is gone."""
    ended = threading.Event()

    def wait() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        ended.set()

    threading.Thread(target=wait, name="stdin", daemon=True).start()
    return ended
