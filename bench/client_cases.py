"""The cases of `bench.clients`: what the clients do, and the goals of the compiled build."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Literal

Kind = Literal["produce", "consume", "read", "librdkafka"]
PLAIN: Final = ("acks=all", "enable.idempotence=false")
IDEMPOTENT: Final = ("acks=all", "enable.idempotence=true", "compression.type=lz4")


@dataclass(frozen=True, slots=True)
class Case:
    """Records of one size to or from a topic, at a rate, or as fast as the client can (`rate` 0).

    `kind`: Kafka's producer; its consumers, which read what a producer sends past the proxy; its consumer, which reads
    a full topic at full speed; or producers of librdkafka in one process. Of the compiled build, `must` is the most CPU
    by HAProxy's, and `aim` what it should be.
    """

    name: str
    title: str
    kind: Kind
    partitions: int
    record_bytes: int = 1000
    rate: int = 5000
    must: float = 1.5
    aim: float = 1.2
    properties: tuple[str, ...] = PLAIN
    """Of the producer."""
    clients: int = 1
    transaction_ms: int = 0
    """How long a transaction lasts; 0: there are none."""

    @property
    def pace(self) -> int:
        """Return the records of a second; at full speed a guess, by which the length of a run is chosen."""
        return self.rate or (60_000 if self.record_bytes >= 1000 else 300_000)

    @property
    def has_latency(self) -> bool:
        """Return whether the proxy is between the producer, which measures latency, and the broker."""
        return self.kind in {"produce", "librdkafka"}


def _fast(name: str, what: str, kind: Kind, partitions: int, must: float, aim: float) -> Case:
    """Return a case of 1 KB at full speed."""
    topic = "1 partition" if partitions == 1 else f"{partitions} partitions"
    title = f"{what} at full speed, {topic}"
    return Case(f"{name}-{partitions}p", title, kind, partitions, rate=0, must=must, aim=aim)


CASES: Final = (
    _fast("produce-1k", "produce 1 KB", "produce", 1, 1.2, 1.0),
    _fast("produce-1k", "produce 1 KB", "produce", 4, 1.2, 1.0),
    _fast("produce-1k", "produce 1 KB", "produce", 12, 1.4, 1.1),
    _fast("produce-1k", "produce 1 KB", "produce", 50, 1.4, 1.1),
    replace(_fast("produce-100", "produce 100 B", "produce", 4, 1.6, 1.2), record_bytes=100),
    replace(
        _fast("produce-lz4", "produce 1 KB, idempotent, lz4,", "produce", 12, 1.4, 1.1),
        properties=IDEMPOTENT,
    ),
    *(_fast("consume-1k", "consume 1 KB", "read", count, 1.05, 0.9) for count in (1, 4, 12, 50)),
    Case("rate-1k-1p", "produce 1 KB at 5,000/s, 1 partition", "produce", 1),
    Case("rate-1k-4p", "produce 1 KB at 5,000/s, 4 partitions", "produce", 4),
    Case(
        "rate-lz4-12p",
        "produce 1 KB, idempotent, lz4, no linger, at 5,000/s, 12 partitions",
        *("produce", 12),
        properties=(*IDEMPOTENT, "linger.ms=0"),
    ),
    Case(
        "rate-100-12p",
        "produce 100 B at 20,000/s, 12 partitions",
        *("produce", 12),
        record_bytes=100,
        rate=20_000,
    ),
    Case(
        "rate-transactions-12p",
        "produce 1 KB in transactions of 100 ms at 5,000/s, 12 partitions",
        *("produce", 12),
        properties=("acks=all",),
        transaction_ms=100,
    ),
    Case("rate-consume-4p", "consume 1 KB at 5,000/s, 4 partitions", "consume", 4),
    Case(
        "rate-group-12p",
        "consume 1 KB at 5,000/s in a group of 2, 12 partitions",
        *("consume", 12),
        clients=2,
    ),
    Case(
        "rate-librdkafka-12p",
        "produce 1 KB by 100 producers of librdkafka, each at 50/s, 12 partitions",
        *("librdkafka", 12),
        clients=100,
    ),
)


def choose(patterns: str) -> list[Case]:
    """Return the cases whose names match one of these comma-separated patterns; all if there is none.

    Raises:
        ValueError: a pattern matches no case.
    """
    wanted = [each for each in patterns.split(",") if each]
    names = [case.name for case in CASES]
    if unknown := [each for each in wanted if not any(fnmatchcase(name, each) for name in names)]:
        raise ValueError(f"unknown case {', '.join(unknown)}; known: {', '.join(names)}")
    return [
        case for case in CASES if not wanted or any(fnmatchcase(case.name, each) for each in wanted)
    ]
