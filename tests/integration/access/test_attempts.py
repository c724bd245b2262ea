"""What clients without the right may try, before a real broker that would let Sluice do everything.

The table of docs/use/access.md is written from what this test sees, with SLUICE_WRITE_TABLES=1.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from policies.messages import encode
from tests.integration.access.conftest import USERS, Prepared
from tests.support.access.attempts import BEGIN, END, MALLORY, OWN, RULES, Attempt, attempts, table
from tests.support.access.differential import versions_of
from tests.support.access.field_values import GONE, GROUPS, MEMBERS, TOPICS, TRANSACTIONS
from tests.support.access.guarded_kafka import direct, fresh, guarding_sluice, through
from tests.support.access.random_requests import random_request
from tests.support.access.replies import codes, projected
from tests.support.access.speaker import Speaker
from tests.support.access.state import state_of
from tests.support.kafka.one_kafka import since
from tests.support.processes.sluice_process import SluiceProcess

PAGE: Final = Path(__file__).parents[3] / "docs" / "use" / "access.md"
NAMES: Final = (*TOPICS, *GONE, *GROUPS, *MEMBERS, *TRANSACTIONS)
LEAST: Final = 150
RANDOM: Final = 1_000

pytestmark = since(4, 4)


@pytest.fixture(scope="module")
def sluice(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SluiceProcess]:
    """Sluice with the rules of the attempts."""
    folder = tmp_path_factory.mktemp("attempts")
    config = {"rules": [*RULES], "auto_create_topics_enable": True}
    with guarding_sluice(prepared.cluster, folder, USERS, config, custody=True) as process:
        yield process


ORDERS = ("$orders", "$both", "$transaction")
"""The words for what names the topic `orders`."""


def judged(speaker: Speaker, attempt: Attempt, prepared: Prepared) -> str:
    """Return the verdict as the table says it. AssertionError if the client got or learned more."""
    body = encode(attempt.message(prepared.topic_ids))
    reply = speaker.send(attempt.api, body)
    assert reply is not None, f"{attempt}: the connection was closed"
    names = {each: name for name, each in prepared.topic_ids.items()}
    projection = projected(reply, names)
    found = {code for code in codes(projection) if code}
    assert found == ({attempt.code} if attempt.code else set()), f"{attempt}: {found} in {reply}"
    asked = repr(attempt.fields)
    told = encode(reply)
    for own in OWN:
        told = told.replace(own.encode(), b"")
    for name in {*NAMES} - OWN:
        is_known = name in asked or (name == "orders" and any(each in asked for each in ORDERS))
        assert is_known or name.encode() not in told, f"{attempt} names {name}: {reply}"
    return attempt.verdict


def test_no_attempt_gets_anything_and_nothing_is_changed(
    prepared: Prepared, sluice: SluiceProcess
) -> None:
    """Each is refused by Kafka's code, or answered without a name of others; the cluster is as before."""
    tried: list[tuple[Attempt, str]] = []
    failed = []
    with direct(prepared.cluster, "") as root:
        before = state_of(root, OWN)
        for user in USERS:
            with through(sluice, user) as speaker:
                for attempt in attempts():
                    if attempt.user == user:
                        try:
                            tried.append((attempt, judged(speaker, attempt, prepared)))
                        except AssertionError as error:
                            failed.append(str(error)[:600])
        after = state_of(root, OWN)
    assert not failed, f"{len(failed)} failed:\n" + "\n".join(failed)
    assert {name for name in before if before[name] != after[name]} == set()
    assert len(tried) >= LEAST
    text = PAGE.read_text("utf-8")
    start, rest = text.split(BEGIN)
    shown, end = rest.split(END)
    if os.environ.get("SLUICE_WRITE_TABLES") == "1":
        PAGE.write_text(f"{start}{table(tried)}{end}", "utf-8")
    else:
        assert f"{BEGIN}{shown}{END}" == table(tried), "SLUICE_WRITE_TABLES=1 writes the table"


def test_random_requests_without_a_right_change_nothing(
    prepared: Prepared, sluice: SluiceProcess
) -> None:
    """Of every API and version that `access` judges: the cluster is as before, and no listing names anything."""
    chance = random.Random(38)
    with direct(prepared.cluster, "") as root, through(sluice, MALLORY) as speaker:
        before = state_of(root, frozenset())
        apis = versions_of(root, speaker)
        for serial in range(RANDOM):
            api = apis[serial] if serial < len(apis) else chance.choice(apis)
            body = encode(random_request(api, chance, prepared.topic_ids))
            reply = speaker.send(api, fresh(body, serial))
            if api.name in {"ListGroups", "ListTransactions"}:
                assert not any(name.encode() in encode(reply) for name in NAMES), reply
        after = state_of(root, frozenset())
    assert {name for name in before if before[name] != after[name]} == set()
