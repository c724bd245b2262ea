"""All real clients at once, each with a quota of its own, before one Sluice, with a tap between them and it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import NODES
from tests.support.quotas.quota_clients import (
    Errand,
    Told,
    franz_go,
    java_producer,
    kafka_python,
    librdkafka,
)
from tests.support.quotas.quota_groups import (
    MEMBERS,
    Feeder,
    KafkaPythonMember,
    LibrdkafkaMember,
    Member,
)
from tests.support.quotas.quota_rows import BURST_SECONDS
from tests.support.quotas.quota_setup import quota_sluice, quota_users
from tests.support.quotas.quota_tap import Talk, Tap, answered

PRODUCER_LIMIT: Final = 20.0
GROUP_LIMIT: Final = 10.0
TAP_ADDRESS: Final = "127.0.15.1"
PYTHON, LIBRDKAFKA, JAVA, FRANZ = "python", "librdkafka", "java", "franz"
PRODUCERS: Final = (PYTHON, LIBRDKAFKA, JAVA, FRANZ)
HONOUR: Final = frozenset({PYTHON, JAVA, FRANZ})
"""The clients that honour throttle_time_ms."""
PYTHON_GROUP, LIBRDKAFKA_GROUP = "member", "rdmember"
GROUPS: Final = {PYTHON_GROUP: KafkaPythonMember, LIBRDKAFKA_GROUP: LibrdkafkaMember}


@dataclass(frozen=True, slots=True)
class Together:
    """The results; from `start` to `stop` all clients were running and their bursts were spent."""

    start: float
    stop: float
    told: dict[str, Told]
    members: dict[str, list[Member]]
    talks: dict[str, list[Talk]]

    def settled(self, client: str) -> float:
        """Return the time from which it has all its connections and its burst is spent; a JVM starts slowly."""
        began = min(each.asked for talk in self.talks[client] for each in talk.exchanges)
        return max(self.start, began + 2 * BURST_SECONDS)

    def rate(self, client: str) -> float:
        """Return the requests of this client answered per second after it had settled."""
        start = self.settled(client)
        return len(answered(self.talks[client], start, self.stop)) / (self.stop - start)

    def longest_s(self, client: str) -> float:
        """Return the longest time from one of its requests to the reply."""
        exchanges = answered(self.talks[client], 0, float("inf"))
        return max((each.answered or 0.0) - each.asked for each in exchanges)

    def passed(self, client: str) -> tuple[int, float]:
        """Return how many requests were sent and answered until `stop`, and in how many seconds.

        Sluice let each of them pass in that time, on a machine of any speed.
        """
        exchanges = answered(self.talks[client], 0, self.stop)
        return len(exchanges), self.stop - min(each.asked for each in exchanges)

    def came_or_went(self, client: str) -> list[Talk]:
        """Return its connections that began or ended after it had settled."""
        start = self.settled(client)
        return [
            talk
            for talk in self.talks[client]
            if start <= talk.began <= self.stop or start <= (talk.ended or 0) <= self.stop
        ]

    def throttle_ms(self, client: str) -> list[int]:
        """Return the throttle time in each of its replies, in order; 0 where there is no field."""
        exchanges = answered(self.talks[client], 0, float("inf"))
        return [exchange.throttle_ms or 0 for exchange in exchanges]


def measure_together(
    cluster: KafkaCluster,
    java: Java,
    franz: Path | None,
    folder: Path,
    warm_seconds: float,
    window_seconds: float,
) -> Together:
    """Run all clients for `warm_seconds` and `window_seconds`."""
    limits = {name: {"request_rate": PRODUCER_LIMIT} for name in PRODUCERS}
    limits |= {name: {"request_rate": GROUP_LIMIT} for name in GROUPS}
    sluice = quota_sluice(cluster, folder / "sluice", limits, advertise=TAP_ADDRESS)
    topics = Topics(cluster.bootstrap, 1)
    passwords = quota_users()
    seconds = warm_seconds + window_seconds
    records = int(PRODUCER_LIMIT * (seconds + BURST_SECONDS + 2))

    def errand(user: str) -> Errand:
        return Errand(sluice.bootstrap, user, passwords[user], topics.make(1), seconds, records)

    runs: dict[str, Callable[[Errand], Told]] = {
        PYTHON: kafka_python,
        LIBRDKAFKA: librdkafka,
        JAVA: lambda sent: java_producer(sent, java, folder),
    }
    if franz is not None:
        program = franz
        runs[FRANZ] = lambda sent: franz_go(sent, program)
    food = {user: topics.make(2) for user in GROUPS}
    sluice.start()
    try:
        ports = range(sluice.port, sluice.port + 1 + NODES)
        with ExitStack() as stack:
            tap = stack.enter_context(
                Tap(
                    [(TAP_ADDRESS, port) for port in ports],
                    [(sluice.address, port) for port in ports],
                )
            )
            stack.enter_context(Feeder(cluster.bootstrap, list(food.values()), 2, 20))
            members = {
                user: [
                    stack.enter_context(kind(sluice.bootstrap, user, passwords[user], food[user]))
                    for _ in range(MEMBERS)
                ]
                for user, kind in GROUPS.items()
            }
            pool = stack.enter_context(ThreadPoolExecutor(len(runs)))
            errands = {user: errand(user) for user in runs}
            began = time.monotonic()
            futures = {user: pool.submit(run, errands[user]) for user, run in runs.items()}
            time.sleep(seconds)
            stop = time.monotonic()
            told = {user: future.result() for user, future in futures.items()}
        talks = {user: tap.talks_of(user) for user in (*runs, *GROUPS)}
        return Together(began + warm_seconds, stop, told, dict(members), talks)
    finally:
        sluice.stop()
