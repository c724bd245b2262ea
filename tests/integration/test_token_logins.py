"""Logins by a delegation token before a real Kafka: no client sheds by one the user that it is known as.

The broker knows the token's owner; Sluice knows it if the token was made through it.
"""

import base64
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SASL_PLAINTEXT
from tests.support.kafka.kafka_sasl import SCRAM_256
from tests.support.kafka.sasl_talk import Talk, Token
from tests.support.kafka.security_setups import ALICE, CAROL, PASSTHROUGH, Files, SetUp
from tests.support.messages.sasl import Scram
from tests.support.plugins.witness import Witnessed, install

SECONDS: Final = 20
SETUP: Final = {kind: SetUp(kind, PASSTHROUGH, SASL_PLAINTEXT) for kind in ("plain", "mTLS")}


@pytest.fixture(scope="module", params=SETUP)
def running(
    request: pytest.FixtureRequest,
    kafka_secure: KafkaCluster,
    security_files: Files,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[SetUp, Witnessed]]:
    """Sluice with and without client certificates; SASL passes through."""
    setup = SETUP[request.param]
    directory = tmp_path_factory.mktemp("tokens")
    variables, seen = install(directory)
    with setup.sluice(kafka_secure, security_files, directory, variables) as sluice:
        yield setup, Witnessed(sluice, seen)


def login_by(token: Token) -> Scram:
    """Return the exchange with which the token logs in."""
    password = base64.b64encode(token.hmac).decode()
    return Scram(SCRAM_256, token.token_id, password, extensions=",tokenauth=true")


def spoken_as(setup: SetUp, witnessed: Witnessed, files: Files, token: Token) -> tuple[str, str]:
    """Log in by the token through Sluice; return the user and source of the requests that follow.

    The broker gets a new token from its controller some time after it was made.
    """
    until = time.monotonic() + SECONDS
    while True:
        earlier = len(witnessed.seen.all())
        with Talk(witnessed.sluice.port, context=setup.context(files)) as talk:
            answer = talk.scram(login_by(token))
            assert answer is not None
            if answer.error_code and time.monotonic() < until:
                time.sleep(0.1)
                continue
            assert answer.error_code == 0
            assert talk.metadata()
            heard = witnessed.seen.of_port(talk.own_port, earlier)
            (spoken,) = {each.principal for each in heard if each.api == "Metadata"}
            return spoken


def test_a_token_that_was_made_elsewhere_takes_no_name_away(
    running: tuple[SetUp, Witnessed], kafka_secure: KafkaCluster, security_files: Files
) -> None:
    """The certificate's name stays; without a certificate the client is one of those without a name."""
    setup, witnessed = running
    broker = kafka_secure.brokers[1]
    with Talk(broker.further[SASL_PLAINTEXT], broker.host) as direct:
        assert direct.scram(Scram(SCRAM_256, *ALICE)) is not None
        token = direct.who()
    assert token is not None
    expected = (CAROL, "tls") if setup.listen == "mTLS" else ("UNKNOWN", "unknown")
    assert spoken_as(setup, witnessed, security_files, token) == expected


def test_a_token_that_was_made_through_sluice_counts_for_its_owner(
    running: tuple[SetUp, Witnessed], security_files: Files
) -> None:
    """The reply to CreateDelegationToken has told id and owner."""
    setup, witnessed = running
    with Talk(witnessed.sluice.port, context=setup.context(security_files)) as talk:
        assert talk.scram(Scram(SCRAM_256, *ALICE)) is not None
        token = talk.who()
    assert token is not None
    assert spoken_as(setup, witnessed, security_files, token) == (ALICE[0], "sasl")
