"""Authentications that end and are not renewed, before a real Kafka: the connection ends too (KIP-368)."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_listeners import PLAINTEXT, SASL_SSL
from tests.support.kafka_sasl import ITERATIONS, SCRAM_512
from tests.support.sasl import plain
from tests.support.sasl_talk import Talk
from tests.support.security_setups import ALICE, NONE, OURS, SLUICE, Files, SetUp

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def until_closed(talk: Talk) -> int:
    """Send requests, one after the other, until the connection ends; return how many were answered."""
    give_up = time.monotonic() + 60
    answered = 0
    while talk.metadata():
        answered += 1
        assert time.monotonic() < give_up, "the connection is still open"
        time.sleep(0.05)
    return answered


def test_a_client_that_does_not_authenticate_again_is_closed(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """As Kafka, Sluice closes at the first request after the session's end."""
    setup = SetUp("plain", OURS, PLAINTEXT)
    with (
        setup.sluice(kafka_secure, security_files, tmp_path, {}, max_reauth_ms=1000) as sluice,
        Talk(sluice.port) as talk,
    ):
        answer = talk.plain(plain(*ALICE))
        assert answer is not None
        assert 0 < answer.session_lifetime_ms <= 1000
        assert until_closed(talk) > 0


def test_a_password_that_is_no_longer_valid_ends_the_connections(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """When the broker refuses Sluice's own authentication, clients lose their connections and get no new ones."""
    setup = SetUp("plain", NONE, SASL_SSL, SCRAM_512)
    admin = AdminClient({"bootstrap.servers": kafka_secure.bootstrap})

    def set_password(password: str) -> None:
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
        change = UserScramCredentialUpsertion(SLUICE[0], credential, password.encode())
        admin.alter_user_scram_credentials([change])[SLUICE[0]].result(30)

    with setup.sluice(kafka_secure, security_files, tmp_path, {}) as sluice:
        with Talk(sluice.port) as talk:
            assert talk.metadata()
            try:
                set_password("another-secret")
                assert until_closed(talk) > 0
                with Talk(sluice.port) as late:
                    assert not late.metadata()
            finally:
                set_password(SLUICE[1])
        assert (
            "SASL_AUTHENTICATION_FAILED" in sluice.said()
            or "Authentication failed" in sluice.said()
        )
