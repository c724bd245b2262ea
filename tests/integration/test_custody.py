"""Credential custody before a real Kafka: clients without credentials reach brokers that require them.

The brokers end an authentication by SCRAM-SHA-256 after six seconds (KIP-368) unless it is renewed.
"""

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import OAUTH, PLAIN
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import unsigned_token
from tests.support.plugins import token_maker
from tests.support.processes.sluice_process import SluiceProcess

ALICE: Final = ("alice", "alice-secret")


@contextmanager
def custody(
    kafka: KafkaCluster, directory: Path, mechanism: str, password: str = ALICE[1]
) -> Iterator[SluiceProcess]:
    """Run a Sluice that authenticates as alice."""
    directory.mkdir(parents=True, exist_ok=True)
    secret = directory / "secret"
    if mechanism == OAUTH:
        secret.write_text(unsigned_token("alice", 600))
        settings: dict[str, object] = {"mechanism": OAUTH, "token_file": str(secret)}
    else:
        secret.write_text(password + "\n")
        settings = {"mechanism": mechanism, "username": "alice", "password_file": str(secret)}
    settings["forward_credential_apis"] = ["CreateDelegationToken"]  # tells who the broker sees
    sluice = SluiceProcess(kafka.sasl_bootstrap, directory, upstream_settings={"sasl": settings})
    with sluice:
        yield sluice


def test_a_wrong_password_is_tried_rarely_and_named_in_the_log(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """Fifty clients are closed; the reason is in the log, without the password."""
    with custody(kafka_sasl, tmp_path / "sluice", PLAIN, "wr0ng-canary") as sluice:
        with ExitStack() as stack:
            talks = [stack.enter_context(Talk(sluice.port)) for _ in range(50)]
            assert all(not talk.metadata() for talk in talks)
        # A session is logged when both its sides are closed.
        await_that(lambda: "upstream_authentication_failed" in sluice.said(), "the line of log")
        said = sluice.said()
    assert "the broker refused the PLAIN credentials (SASL_AUTHENTICATION_FAILED)" in said
    assert "wr0ng-canary" not in said


def test_a_plug_in_gets_the_tokens_and_the_next_before_one_ends(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """The broker ends a connection with its token; that of this client stays, and is alice's."""
    calls = tmp_path / "calls"
    options = {"file": str(calls), "subject": ALICE[0], "lifetime_s": 6}
    settings = {
        "mechanism": OAUTH,
        "token_provider": token_maker.USE,
        "token_options": options,
        "forward_credential_apis": ["CreateDelegationToken"],
    }
    sluice = SluiceProcess(
        kafka_sasl.sasl_bootstrap,
        tmp_path,
        upstream_settings={"sasl": settings},
        variables=token_maker.variables(),
    )
    with sluice, Talk(sluice.port) as talk:

        def has_renewed() -> bool:
            assert talk.metadata()
            return token_maker.calls(calls) >= 3

        await_that(has_renewed, "the third token")
        token = talk.who()
    assert token is not None
    assert token.owner == ALICE[0]


def test_sasl_of_a_client_is_answered_as_a_plaintext_listener_answers_it(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """SaslHandshake, SaslAuthenticate and the versions of both are the same as those of Kafka without SASL, and the
    connection stays.
    """

    def talk_about_sasl(port: int, host: str) -> list[object]:
        with Talk(port, host) as talk:
            found: list[object] = [_offered(talk)]
            talk.send(sasl.handshake(talk.next_id(), "PLAIN"))
            found.append(talk.receive())
            for version in range(3):
                token = sasl.plain(*ALICE)
                talk.send(sasl.authenticate(talk.next_id(), token, version))
                found.append(talk.receive())
            return [*found, talk.metadata()]

    broker = kafka_sasl.brokers[1]
    direct = talk_about_sasl(broker.port, broker.host)
    with custody(kafka_sasl, tmp_path / "sluice", PLAIN) as sluice:
        assert talk_about_sasl(sluice.port, "127.0.0.1") == direct


def _offered(talk: Talk) -> dict[int, tuple[int, int]]:
    """Return the ranges of SaslHandshake and SaslAuthenticate; Sluice never offers SaslHandshake v0."""
    talk.send(f.request(f.API_VERSIONS, 0, talk.next_id()))
    reply = talk.receive()
    assert reply is not None
    (count,) = struct.unpack_from(">i", reply, 2)
    ranges = {
        key: (max(lowest, key == f.SASL_HANDSHAKE), highest)
        for key, lowest, highest in struct.iter_unpack(">hhh", reply[6 : 6 + 6 * count])
    }
    return {key: ranges[key] for key in (f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE)}
