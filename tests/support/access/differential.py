"""The comparison of `access` with Kafka's own authorizer: one request both ways, until the replies agree or differ.

Rules:
- A user has the same rights at the broker (ACLs) and in Sluice (rules), and nothing else.
- Who is asked first changes with each request. What a request changes at the cluster may make the second answer
  another: then both are asked again. A difference of rights is there each time.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from policies.messages import encode
from tests.support.access.guarded_kafka import fresh
from tests.support.access.random_requests import compared, random_request
from tests.support.access.replies import codes, difference, meant, projected
from tests.support.access.rule_sets import Right
from tests.support.access.speaker import Speaker
from tests.support.messages.kafka_messages import api_of
from wire.apis import Api, key_named

TRIES: Final = 3
REFUSALS: Final = frozenset({29, 30, 31, 53})


@dataclass(slots=True)
class Comparison:
    """What was compared, and what differed."""

    topic_ids: dict[str, uuid.UUID]
    chance: random.Random
    requests: int = 0
    differences: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """Requests with a refusal, by API."""
    allowed: Counter[str] = field(default_factory=Counter)
    _serial: int = 0
    _names: Mapping[uuid.UUID, str] = field(init=False)

    def __post_init__(self) -> None:
        self._names = {each: name for name, each in self.topic_ids.items()}

    def play(self, kafka: Speaker, sluice: Speaker, rights: list[Right], apis: list[Api]) -> None:
        """Compare one request of each of these APIs and versions."""
        for api in apis:
            request = random_request(api, self.chance, self.topic_ids)
            told = self._compare(kafka, sluice, api, encode(request))
            self.requests += 1
            if told:
                lines = ", ".join(map(str, rights))
                self.differences.append(
                    f"{api.name} v{api.version}{told}\n  {request}\n  of {kafka.user}: {lines}"
                )

    def _compare(self, kafka: Speaker, sluice: Speaker, api: Api, body: bytes) -> str:
        told = ""
        for _ in range(TRIES):
            found: dict[str, Any] = {}
            order = [kafka, sluice]
            self.chance.shuffle(order)
            for speaker in order:
                self._serial += 1
                reply = speaker.send(api, fresh(body, self._serial))
                way = "kafka" if speaker is kafka else "sluice"
                found[way] = projected(reply, self._names)
            told = difference(meant(api, found["kafka"], found["sluice"]), found["sluice"])
            if not told:
                break
        seen = REFUSALS.intersection(codes(found["kafka"]))
        (self.refused if seen else self.allowed)[api.name] += 1
        return told


def versions_of(kafka: Speaker, sluice: Speaker) -> list[Api]:
    """Return each API and version that is compared: both offer it, and both ends of the test can speak it."""
    ours, theirs = sluice.offered(), kafka.offered()
    found = []
    for name, first, last in compared():
        if name in ours and name in theirs:
            least = max(first, ours[name][0], theirs[name][0])
            most = min(last, ours[name][1], theirs[name][1])
            found += [api_of(key_named(name), version) for version in range(least, most + 1)]
    return found
