"""One client of the demo as a process (`-m proxy.demo.client`).

Rules:
- Arguments: role, name, bootstrap servers, topic, number of partitions.
- One process plays one role and loads one client library.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.messages import until_input_ends
from proxy.demo.producers import KafkaPython, Librdkafka, Producing, produce
from proxy.demo.reader import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.demo.producers import Library


class Manner(NamedTuple):
    """How a producer behaves."""

    library: Callable[[str, str, str], Library]
    per_second: float
    record_bytes: int


PRODUCERS = {
    "polite": Manner(KafkaPython, per_second=100, record_bytes=100),
    "noisy": Manner(Librdkafka, per_second=2000, record_bytes=200),
}
READER = "reader"


def main(arguments: list[str]) -> None:
    """Play one role until standard input ends."""
    role, name, bootstrap, topic, partitions = arguments
    stop = until_input_ends()
    if role == READER:
        read(name, bootstrap, topic, stop)
        return
    manner = PRODUCERS[role]
    library = manner.library(name, bootstrap, topic)
    work = Producing(name, library, int(partitions), manner.record_bytes)
    produce(work, library, manner.per_second, stop)


if __name__ == "__main__":
    main(sys.argv[1:])
