"""Random scripts for clients under a quota: traffic, live changes, reloads, and clients that leave."""

from random import Random
from typing import Any, NamedTuple

from policies.quota.entity import QuotaEntity
from tests.support.messages import frames as f
from tests.support.messages.many_partitions import produce_many, produce_many_reply
from tests.support.messages.throttled import KINDS, SILENT, Kind

START_MS = 1_700_000_000_300
CLIENTS = 3
ALL = {
    **KINDS,
    "silent": SILENT,
    "other client": Kind(
        f.HEARTBEAT, lambda n: f.heartbeat(n, "other"), lambda n, _: f.heartbeat_reply(n), bytes
    ),
    "many": Kind(f.PRODUCE, produce_many, produce_many_reply, bytes),
    "large": Kind(
        f.PRODUCE,
        lambda n: f.produce(n, size_bytes=3_000),
        lambda n, ms: f.produce_reply(n, throttle_time_ms=ms),
        bytes,
    ),
}
NAMES = ["heartbeat-v1", "heartbeat-v4", "produce-v3", "produce-v9", "fetch-v4", "metadata-v3"]
NAMES += ["silent", "other client", "large", "many", "produce-v3", "heartbeat-v1"]
ENTITIES = [
    QuotaEntity("<default>"),
    QuotaEntity("ANONYMOUS"),
    QuotaEntity(client_id="tests"),
    QuotaEntity(client_id="<default>"),
]
LIMITS: dict[str, list[float]] = {
    "request_rate": [2, 5, 20, 200, 1e9],
    "producer_byte_rate": [400, 5_000, 10**9],
    "consumer_byte_rate": [400, 10**9],
}


class Script(NamedTuple):
    """The settings of the policy, and what happens, in order."""

    config: dict[str, Any]
    options: dict[str, int]
    events: list[tuple[Any, ...]]


def script(rng: Random, enforcement: str) -> Script:
    """Return a random play."""
    quotas: dict[QuotaEntity, dict[str, object]] = {}
    for _ in range(rng.randint(1, 3)):
        entity, key = rng.choice(ENTITIES), rng.choice(["request_rate", *LIMITS])
        names = {"user": entity.user, "client_id": entity.client_id}
        line = quotas.setdefault(entity, {name: text for name, text in names.items() if text})
        line[key] = rng.choice(LIMITS[key])
    config: dict[str, Any] = {
        "enforcement": enforcement,
        "quotas": list(quotas.values()),
        "burst_seconds": rng.choice([0, 0.5, 1, 2]),
    }
    if rng.random() < 0.1:
        config["cluster_principals"] = ["ANONYMOUS"]
    if enforcement == "channel":
        config["coexistence"] = rng.choice(["max", "sequential"])
    events: list[tuple[Any, ...]] = []
    for _ in range(rng.randint(5, 25)):
        drawn = rng.random()
        place = rng.randrange(CLIENTS)
        if drawn < 0.55:
            asked = [rng.choice(NAMES)] * rng.randint(1, 6)
            if rng.random() < 0.3:
                asked = [rng.choice(NAMES) for _ in asked]
            events.append(("ask", place, asked, rng.choice([0, 0, 0, 40, 3_050])))
        elif drawn < 0.7:
            events.append(("answer", place, rng.choice([1, 3, 99]), rng.choice([0, 0, 0, 70])))
        elif drawn < 0.88:
            events.append(
                ("pass", rng.choice([400, 1_000, 30_000, 400_000, 1_300_000, 12_000_000]))
            )
        elif drawn < 0.95:
            key = rng.choice(list(LIMITS))
            value = rng.choice([None, *LIMITS[key]])
            events.append(("change", rng.choice(ENTITIES), key, value))
        elif drawn < 0.97:
            events.append(("reload", rng.choice([0, 1, 2])))
        else:
            events.append(("leave", place))
    return Script(
        config, {"keeps_traces": rng.random() < 0.5, "sample_every": rng.choice([0, 3])}, events
    )


def short_throttles(rng: Random) -> Script:
    """Return a play of throttles of some milliseconds, within and across seconds; clients send before and after their
    ends.
    """
    line: dict[str, object] = {"user": "<default>", "request_rate": rng.choice([20, 200, 900])}
    if rng.random() < 0.3:
        line["producer_byte_rate"] = rng.choice([5_000, 50_000])
    config: dict[str, Any] = {
        "enforcement": "entity",
        "quotas": [line],
        "burst_seconds": rng.choice([0, 0, 0.05]),
    }
    names = rng.sample(["produce-v9", "heartbeat-v4", "silent", "produce-v3"], 2)
    events: list[tuple[Any, ...]] = []
    for _ in range(rng.randint(30, 80)):
        drawn, place = rng.random(), rng.randrange(CLIENTS)
        if drawn < 0.5:
            asked = [rng.choice(names) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
            events.append(("ask", place, asked, rng.choice([0, 0, 0, 40])))
        elif drawn < 0.65:
            events.append(("answer", place, 99, rng.choice([0, 0, 0, 0, 30])))
        elif drawn < 0.95:
            events.append(
                ("pass", rng.choice([1_000, 2_000, 5_000, 5_000, 50_000, 50_000, 700_000]))
            )
        elif drawn < 0.97:
            value = rng.choice(LIMITS["request_rate"])
            events.append(("change", QuotaEntity("<default>"), "request_rate", value))
        elif drawn < 0.985:
            events.append(("reload", rng.choice([0, 1])))
        else:
            events.append(("leave", place))
    return Script(config, {"keeps_traces": rng.random() < 0.1, "sample_every": 0}, events)
