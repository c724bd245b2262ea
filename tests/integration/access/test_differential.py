"""`access` answers as Kafka's own authorizer: random rights, random requests, every API and version; 0 differences.

The broker has StandardAuthorizer. A user asks it directly, with ACLs; and Sluice, which goes to it as a super user and
has rules that say the same. `replies` says what is compared, and names each difference that is meant.
"""

import random
from pathlib import Path
from typing import Final

import pytest

from tests.support.access.differential import Comparison, versions_of
from tests.support.access.guarded_kafka import (
    direct,
    give,
    guarded_kafka,
    guarding_sluice,
    prepare,
    through,
)
from tests.support.access.rule_sets import access_config, random_rights
from tests.support.kafka.java import Java
from tests.support.kafka.one_kafka import since

SEED: Final = 38
QUICK_USERS, QUICK_REQUESTS = 10, 20
SLOW_USERS, SLOW_REQUESTS = 80, 250
NETWORK: Final = 38

pytestmark = since(4, 4)


@pytest.fixture(params=[pytest.param("quick"), pytest.param("slow", marks=pytest.mark.slow)])
def amount(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Return how many users ask, and how often each."""
    if request.param == "slow":
        return SLOW_USERS, SLOW_REQUESTS
    return QUICK_USERS, QUICK_REQUESTS


@pytest.mark.timeout(1800)
def test_every_answer_is_that_of_kafkas_authorizer(
    amount: tuple[int, int], java: Java, tmp_path: Path
) -> None:
    """The same codes at the same items, the same names, the same rights that are told: whoever asks for whatever."""
    chance = random.Random(SEED)
    users, requests = amount
    rights = {f"u{number:03}": random_rights(chance) for number in range(users)}
    cluster = guarded_kafka(tmp_path / "kafka", NETWORK, java, rights)
    config = access_config(rights, chance, auto_create_topics_enable=False)
    sluice = guarding_sluice(cluster, tmp_path / "sluice", rights, config)
    try:
        cluster.start()
        give(cluster, rights)
        comparison = Comparison(prepare(cluster), chance)
        with sluice:
            todo: list = []
            for user, lines in rights.items():
                with direct(cluster, user) as kafka, through(sluice, user) as guarded:
                    while len(todo) < requests:  # every version comes before one comes again
                        again = versions_of(kafka, guarded)
                        chance.shuffle(again)
                        todo += again
                    comparison.play(kafka, guarded, lines, todo[:requests])
                    del todo[:requests]
    finally:
        cluster.stop()
    told = "\n".join(comparison.differences)
    count = len(comparison.differences)
    print(f"{comparison.requests} requests, {count} differences")  # noqa: T201 - the figure
    print(f"refused: {dict(comparison.refused)}")  # noqa: T201
    assert count == 0, f"{count} of {comparison.requests} differ:\n{told}"
    assert len(comparison.refused) > len(comparison.allowed) / 3
