"""Authentications that end and are not renewed, before a real Kafka: the connection ends too (KIP-368)."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import PLAINTEXT, SASL_SSL
from tests.support.kafka.kafka_sasl import ITERATIONS, SCRAM_512
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import ALICE, LIFETIME_MS, NONE, OURS, SLUICE, Files, SetUp
from tests.support.messages.sasl import plain

TRIES: Final = 10
BY_SLUICE: Final = SetUp("plain", NONE, SASL_SSL, SCRAM_512)


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
        setup.sluice(kafka_secure, security_files, tmp_path, {}, max_reauth_ms=3000) as sluice,
        Talk(sluice.port) as talk,
    ):
        answer = talk.plain(plain(*ALICE))
        assert answer is not None
        assert 0 < answer.session_lifetime_ms <= 3000
        assert until_closed(talk) > 0


def set_password(cluster: KafkaCluster, password: str) -> None:
    """Give Sluice's user this password at the brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    change = UserScramCredentialUpsertion(SLUICE[0], credential, password.encode())
    admin.alter_user_scram_credentials([change])[SLUICE[0]].result(30)


@pytest.mark.slow
def test_a_password_that_is_no_longer_valid_ends_the_connections(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """When the broker refuses Sluice's own authentication, clients lose their connections and get no new ones."""
    sluice = BY_SLUICE.sluice(kafka_secure, security_files, tmp_path, {})
    with sluice, Talk(sluice.port) as talk:
        assert talk.metadata()
        try:
            set_password(kafka_secure, "another-secret")
            until_closed(talk)
            with Talk(sluice.port) as late:
                assert not late.metadata()
        finally:
            set_password(kafka_secure, SLUICE[1])
        assert "reason=upstream_authentication_failed" in sluice.said()


def outlives_its_authentication(talk: Talk) -> bool:
    """Return whether the connection is still there after the time of an authentication."""
    ends = time.monotonic() + 1.2 * LIFETIME_MS / 1000
    while time.monotonic() < ends:
        if not talk.metadata():
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
def test_a_password_changed_at_both_sides_needs_neither_reload_nor_restart(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """The password file is read again for each authentication, first or renewed.

    A renewal may fall between the two changes, or come too late on a machine that stalls: then the connection ends,
    and the next one must show the same.
    """
    sluice = BY_SLUICE.sluice(kafka_secure, security_files, tmp_path, {})
    with sluice, ExitStack() as stack:
        talk = stack.enter_context(Talk(sluice.port))
        assert talk.metadata()
        try:
            set_password(kafka_secure, "another-secret")
            (tmp_path / "password").write_text("another-secret")
            for _ in range(TRIES):
                if outlives_its_authentication(talk):
                    break
                talk = stack.enter_context(Talk(sluice.port))
                time.sleep(1)  # new credentials are not tried for a second after a refusal
            else:
                raise AssertionError(f"no connection was renewed: {sluice.said()}")
            with Talk(sluice.port) as late:
                assert late.metadata()
        finally:
            set_password(kafka_secure, SLUICE[1])
