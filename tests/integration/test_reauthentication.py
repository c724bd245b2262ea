"""Authentications that end every six seconds (KIP-368), under load before a real Kafka: no connection is lost.

The client authenticates again at the broker or at Sluice, or Sluice does at the broker. An attempt as another user,
by another mechanism or with a wrong password ends the connection. SLUICE_REAUTH_SECONDS makes the load longer.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SASL_SSL
from tests.support.kafka.kafka_sasl import OAUTH, SCRAM_512
from tests.support.kafka.load import LoadProducer
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import (
    ALICE,
    LIFETIME_MS,
    NONE,
    OURS,
    PASSTHROUGH,
    SLUICE,
    Files,
    SetUp,
)
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, acked_values, config_file
from tests.support.messages.sasl import Scram, plain, unsigned_token
from tests.support.plugins.witness import Sightings, Witnessed, install

pytestmark = pytest.mark.slow

SECONDS: Final = float(os.environ.get("SLUICE_REAUTH_SECONDS", "14"))
"""At least; the load ends when each client has authenticated AUTHENTICATIONS times on a connection."""
AUTHENTICATIONS: Final = 3
JAVA_RATE: Final = 50
TOKEN_SECONDS: Final = 9
LONG_TOKEN_SECONDS: Final = 3600
BY_THE_CLIENT: Final = SetUp("TLS", PASSTHROUGH, SASL_SSL)
BY_THE_CLIENT_AT_SLUICE: Final = SetUp("TLS", OURS, SASL_SSL, OAUTH)
BY_SLUICE: Final = SetUp("plain", NONE, SASL_SSL, SCRAM_512)
SETUPS: Final = (BY_THE_CLIENT, BY_THE_CLIENT_AT_SLUICE, BY_SLUICE)


@dataclass(frozen=True, slots=True)
class Flow:
    """A producer's run through one Sluice."""

    setup: SetUp
    client_id: str
    seen: Sightings
    sent: int
    stored: int

    def sessions(self) -> dict[int, int]:
        """Return the connections that carried records, with their number of authentications."""
        return sessions(self.seen, self.client_id)


def sessions(sightings: Sightings, client_id: str) -> dict[int, int]:
    """Return the connections on which this client sent records, with their number of authentications."""
    seen = sightings.of_client(client_id)
    producing = {each.session_id for each in seen if each.api == "Produce"}
    return {
        one: sum(each.api == "SaslHandshake" for each in seen if each.session_id == one)
        for one in producing
    }


@pytest.fixture(scope="module")
def topics(kafka_secure: KafkaCluster) -> Topics:
    """Topics by the listener without authentication."""
    return Topics(kafka_secure.bootstrap, 1)


@pytest.fixture(scope="module")
def witnessed(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[SetUp, Witnessed]]:
    """A Sluice for each set-up."""
    with ExitStack() as stack:
        found = {}
        for setup in SETUPS:
            folder = tmp_path_factory.mktemp("reauthentication")
            variables, seen = install(folder)
            more = {"max_reauth_ms": LIFETIME_MS} if setup.login == OURS else {}
            sluice = setup.sluice(kafka_secure, security_files, folder, variables, **more)
            found[setup] = Witnessed(stack.enter_context(sluice), seen)
        yield found


@pytest.fixture(scope="module")
def flows(
    witnessed: dict[SetUp, Witnessed],
    security_files: Files,
    topics: Topics,
    java: Java,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Flow]:
    """Run librdkafka through each set-up and Java through the first, all at the same time."""
    folder = tmp_path_factory.mktemp("flows")
    loads: dict[SetUp, LoadProducer] = {}
    with ExitStack() as stack:
        for setup, each in witnessed.items():
            security = setup.security(SCRAM_512 if setup.login != NONE else "", security_files)
            settings = {"client.id": f"c-{uuid.uuid4()}", **security.librdkafka()}
            load = LoadProducer(each.sluice.bootstrap, topics.make(), 1, 100, settings=settings)
            loads[setup] = stack.enter_context(load)
        java_id, java_topic = f"j-{uuid.uuid4()}", topics.make()
        security = BY_THE_CLIENT.security(SCRAM_512, security_files)
        config = {"client.id": java_id, **security.java()}
        tool = java.start_tool(
            PRODUCER,
            *("--bootstrap-server", witnessed[BY_THE_CLIENT].sluice.bootstrap),
            *("--topic", java_topic, "--throughput", str(JAVA_RATE)),
            *("--command-config", config_file(folder / "java.properties", config)),
            output=folder / "java.out",
        )
        stack.callback(tool.kill)
        authenticating = [
            (witnessed[setup].seen, str(load.settings["client.id"]))
            for setup, load in loads.items()
            if setup.login != NONE
        ]
        authenticating.append((witnessed[BY_THE_CLIENT].seen, java_id))
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends or any(
            max(sessions(*each).values(), default=0) < AUTHENTICATIONS for each in authenticating
        ):
            for each in witnessed.values():
                _new_token(each.sluice.directory)
            time.sleep(1)
        tool.terminate()
        tool.wait()
    found = {}
    for setup, load in loads.items():
        contents = topics.contents(load.topic)
        load.reckon(contents)
        client_id = str(load.settings["client.id"])
        found[setup.name] = Flow(setup, client_id, witnessed[setup].seen, load.sent, len(contents))
    sent = len(acked_values((folder / "java.out").read_text()))
    stored = len(topics.contents(java_topic))
    found["Java"] = Flow(BY_THE_CLIENT, java_id, witnessed[BY_THE_CLIENT].seen, sent, stored)
    return found


def _new_token(directory: Path, seconds: int = TOKEN_SECONDS) -> None:
    """Replace the token that Sluice read last by one that lives longer."""
    token = directory / "token"
    if token.exists():
        fresh = directory / "token.new"
        fresh.write_text(unsigned_token(SLUICE[0], seconds))
        fresh.replace(token)


@pytest.mark.parametrize("name", [*(each.name for each in SETUPS), "Java"])
def test_no_connection_is_lost(flows: dict[str, Flow], name: str) -> None:
    """One connection carries all records while the authentication ends again and again."""
    flow = flows[name]
    (authentications,) = flow.sessions().values()
    assert flow.sent == flow.stored
    assert flow.sent
    if flow.setup.login != NONE:
        assert authentications >= AUTHENTICATIONS


def another_user(talk: Talk) -> None:
    answer = talk.scram(Scram(SCRAM_512, "bob", "bob-secret"))
    assert answer is None or answer.error_code


def another_mechanism(talk: Talk) -> None:
    answer = talk.token(plain(*ALICE)) if talk.handshake("PLAIN") == 0 else None
    assert answer is None or answer.error_code


def a_wrong_password(talk: Talk) -> None:
    answer = talk.scram(Scram(SCRAM_512, ALICE[0], "wrong"))
    assert answer is None or answer.error_code


@pytest.mark.parametrize("again", [another_user, another_mechanism, a_wrong_password])
@pytest.mark.parametrize(
    "setup", [each for each in SETUPS if each.login != NONE], ids=lambda each: each.name
)
def test_a_bad_re_authentication_ends_the_connection(
    setup: SetUp,
    again: Callable[[Talk], None],
    witnessed: dict[SetUp, Witnessed],
    security_files: Files,
) -> None:
    """Requests before it are alice's, and none comes through after it."""
    sluice, seen = witnessed[setup].sluice, witnessed[setup].seen
    _new_token(
        sluice.directory, LONG_TOKEN_SECONDS
    )  # no clock ends the connection but the client's attempt
    earlier = len(seen.all())
    with Talk(sluice.port, context=setup.context(security_files)) as talk:
        answer = talk.scram(Scram(SCRAM_512, *ALICE))
        assert answer is not None
        assert 0 < answer.session_lifetime_ms <= LIFETIME_MS
        assert talk.metadata()
        again(talk)
        assert talk.is_closed()
        heard = seen.of_port(talk.own_port, earlier)
        users = {each.user for each in heard if each.api == "Metadata"}
    assert users == {ALICE[0]}
