"""One client of the demo as a process (`-m proxy.demo.client`).

Rules:
- Arguments: role, name, bootstrap servers, topic, number of partitions.
- One process plays one role and loads one client library.
- The noisy one runs at a low priority: it shall take what it takes from Sluice and the brokers, as if
  it ran on another machine, not this machine's CPU from the polite one.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from proxy.demo.libraries import KafkaPython, Librdkafka, chatty
from proxy.demo.messages import Cues
from proxy.demo.pace import Flood, Steady
from proxy.demo.producers import TICK_S, Producing, produce
from proxy.demo.reader import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.demo.libraries import Library
    from proxy.demo.pace import Pace


class Manner(NamedTuple):
    """How a producer behaves."""

    library: Callable[[str, str, str], Library]
    pace_of: Callable[[], Pace]
    record_bytes: int
    tick_s: float = TICK_S
    """Without end: only on cue."""
    niceness: int = 0


def steady(per_second: float) -> Callable[[], Pace]:
    """Return a steady pace that makes up for at most a tenth of a second."""
    return lambda: Steady(per_second, time.monotonic(), most=max(1, int(per_second / 10)))


PRODUCERS = {
    "producer-1": Manner(KafkaPython, steady(100), 100),
    "producer-2": Manner(Librdkafka, steady(2000), 200),
    "polite": Manner(KafkaPython, steady(200), 100, tick_s=math.inf),
    "noisy": Manner(chatty, lambda: Flood(depth=4000), 16_000, tick_s=math.inf, niceness=10),
}
READER = "reader"


def main(arguments: list[str]) -> None:
    """Play one role until standard input ends."""
    role, name, bootstrap, topic, partitions = arguments
    cues = Cues()
    if role == READER:
        read(name, bootstrap, topic, cues.ended)
        return
    manner = PRODUCERS[role]
    os.nice(manner.niceness)
    library = manner.library(name, bootstrap, topic)
    work = Producing(name, library, int(partitions), manner.record_bytes)
    produce(work, library, manner.pace_of, cues, manner.tick_s)


if __name__ == "__main__":
    main(sys.argv[1:])
