"""T13: password, proof, client secret and token by which Sluice authenticates are in nothing that it writes."""

import re
from pathlib import Path

import pytest

from bench.harness.ports import free_ports
from tests.support.faults.relay import Relay
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SASL_PLAINTEXT
from tests.support.kafka.kafka_sasl import OAUTH, PLAIN, SCRAMS
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import CANARY, Files
from tests.support.messages.sasl import unsigned_token
from tests.support.processes.canaries import loud, new_secret
from tests.support.shell.token_endpoint import TokenEndpoint

USER, PASSWORD = CANARY


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("mechanism", [PLAIN, *SCRAMS, OAUTH])
def test_sluices_own_secrets_are_kept(
    mechanism: str, *, right: bool, kafka_secure: KafkaCluster, tmp_path: Path
) -> None:
    """Sluice authenticates, or is refused; its password, proof and token are nowhere but in their file."""
    broker = kafka_secure.brokers[1]
    front = (broker.host, free_ports(broker.host))
    secret = PASSWORD if right else new_secret()
    if mechanism == OAUTH:
        secret = unsigned_token(new_secret(), 3600 if right else -60)
        settings = {"mechanism": mechanism, "token_file": str(tmp_path / "secret")}
    else:
        settings = {
            "mechanism": mechanism,
            "username": USER,
            "password_file": str(tmp_path / "secret"),
        }
    (tmp_path / "secret").write_text(secret)
    with Relay(
        [front], [(broker.host, broker.further[SASL_PLAINTEXT])], keeps_requests=True
    ) as relay:
        upstream = f"{front[0]}:{front[1]}"
        made = loud(upstream, tmp_path, upstream_settings={"sasl": settings})
        made.canaries.add("secret", secret.split(".")[1] if mechanism == OAUTH else secret)
        with made.sluice:
            with Talk(made.sluice.port) as talk:
                assert talk.metadata() is right
            await_that(lambda: "session_closed" in made.sluice.said(), "the session's end")
            outputs = made.outputs()
    proofs = re.findall(rb",p=([A-Za-z0-9+/=]+)", bytes(relay.requests))
    assert bool(proofs) is (mechanism in SCRAMS)
    for place, proof in enumerate(proofs):
        made.canaries.add(f"proof {place}", proof)

    assert made.canaries.found_in(outputs) == []
    assert mechanism.encode() in b"".join(outputs.values())


@pytest.mark.parametrize("right", [True, False])
def test_the_secret_for_a_token_endpoint_is_kept(
    *, right: bool, kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """Neither the client's secret nor the token is written, also if the endpoint repeats the secret in its refusal."""
    secret = new_secret()
    (tmp_path / "secret").write_text(secret if right else new_secret())
    known = ("billing", secret)
    with TokenEndpoint(security_files.server, new_secret(), known, 3600) as endpoint:
        settings = {
            "mechanism": OAUTH,
            "token_endpoint_url": endpoint.url,
            "client_id": "billing",
            "client_secret_file": str(tmp_path / "secret"),
        }
        made = loud(
            kafka_secure.bootstrap_of(SASL_PLAINTEXT),
            tmp_path,
            upstream_settings={"sasl": settings},
            variables={"REQUESTS_CA_BUNDLE": str(security_files.ca)},
        )
        made.canaries.add("client secret", (tmp_path / "secret").read_text())
        with made.sluice:
            with Talk(made.sluice.port) as talk:
                assert talk.metadata() is right
            await_that(lambda: "session_closed" in made.sluice.said(), "the session's end")
            outputs = made.outputs()
        assert endpoint.asked > 0
        assert bool(endpoint.given) is right
        for place, token in enumerate(endpoint.given):
            made.canaries.add(f"token {place}", token.split(".")[1])

    assert made.canaries.found_in(outputs) == []
