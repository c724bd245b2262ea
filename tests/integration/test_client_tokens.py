"""Clients that log in at Sluice by tokens of an identity provider, before a real Kafka that asks for no login.

All three libraries move records, see their own exceptions when a token is refused, and go on with newer tokens on the
same connection. The provider's keys change meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaTimeoutError

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import OAUTH
from tests.support.kafka.load import LoadProducer
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.three_libraries import COUNT, LIBRARIES, move
from tests.support.kafka.token_security import TokenSecurity, allowing
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, acked_values, config_file
from tests.support.messages.sasl import FAILED, bearer
from tests.support.plugins.witness import Witnessed, install
from tests.support.processes.sluice_process import COMMAND, SluiceProcess
from tests.support.shell.token_issuer import AUDIENCE, ISSUER, IdentityProvider, signed

pytestmark = pytest.mark.slow

LIVES_SECONDS: Final = 6
AUTHENTICATIONS: Final = 3
WAIT_SECONDS: Final = 60
REFUSED: Final = "invalid_token"
POD: Final = "system:serviceaccount:shop:orders"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider("RS256") as made:
        yield made


@pytest.fixture(scope="module")
def witnessed(
    kafka_one: KafkaCluster, provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Witnessed]:
    """A Sluice that checks tokens by the keys at the provider's address."""
    folder = tmp_path_factory.mktemp("client-tokens")
    variables, seen = install(folder)
    oauthbearer = {
        "jwks": provider.url("/keys"),
        "issuer": ISSUER,
        "audience": [AUDIENCE],
        "algorithms": ["RS256", "ES256"],
        "clock_skew_ms": 0,
        "principal_rules": [
            "RULE:^system:serviceaccount:([^:]+):([^:]+)$/$1.$2/",
            "RULE:^([a-z-]+)$/$1/",
        ],
        "groups_claim": "groups",
    }
    sluice = SluiceProcess(
        kafka_one.bootstrap,
        folder,
        listen_settings={"sasl": {"mechanisms": [OAUTH], "oauthbearer": oauthbearer}},
        variables=variables,
        settings={"admin": {"socket": f"{folder}/admin"}},
    )
    with sluice:
        yield Witnessed(sluice, seen)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_is_the_user_of_its_token(
    library: str,
    witnessed: Witnessed,
    provider: IdentityProvider,
    topics_one: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """Records arrive, and policies see the user that the token names."""
    topic = topics_one.make()
    security: Any = TokenSecurity(provider)
    bootstrap = witnessed.sluice.bootstrap
    client_id = move(library, allowing(java, provider), bootstrap, topic, security, tmp_path)
    assert len(topics_one.contents(topic)) == COUNT
    spoken = {
        each.principal for each in witnessed.seen.of_client(client_id) if each.api == "Produce"
    }
    assert spoken == {("alice", "sasl")}


def test_a_pod_shows_the_file_that_kubernetes_renews(
    witnessed: Witnessed,
    provider: IdentityProvider,
    topics_one: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """A service account becomes a user by a rule; Java reads the file itself."""
    topic, file = topics_one.make(), tmp_path / "token"
    pod = {"kubernetes.io": {"namespace": "shop", "serviceaccount": {"name": "orders"}}}
    file.write_text(provider.token(POD, aud=[AUDIENCE], **pod))
    security: Any = TokenSecurity(provider, POD, file=file)
    bootstrap = witnessed.sluice.bootstrap
    client_id = move("Java", allowing(java, provider, file), bootstrap, topic, security, tmp_path)
    assert {each.user for each in witnessed.seen.of_client(client_id) if each.api == "Produce"} == {
        "shop.orders"
    }


REFUSALS: Final = [
    (("aud", "other"),),
    (("iss", "https://evil.test"),),
    (("exp", 1),),
    (("nbf", 4_000_000_000),),
    (("sub", "User With Spaces"),),
    (("groups", 5),),
]


@pytest.mark.parametrize("claims", REFUSALS, ids=lambda each: each[0][0])
def test_librdkafka_sees_its_own_error(
    claims: tuple[tuple[str, object], ...], witnessed: Witnessed, provider: IdentityProvider
) -> None:
    """Whatever is wrong with the token, it sees the same, and the log has the reason without it."""
    security = TokenSecurity(provider, claims=claims)
    errors: list[KafkaError] = []
    settings = {"bootstrap.servers": witnessed.sluice.bootstrap, "error_cb": errors.append}
    client = Producer({**settings, **security.librdkafka()})
    until = time.monotonic() + WAIT_SECONDS
    while not errors and time.monotonic() < until:
        client.poll(0.2)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert REFUSED in errors[0].str()
    said = witnessed.sluice.said()
    assert "the token is refused: " in said
    assert not any(token in said or token.split(".")[1] in said for token in provider.given)


def test_kafka_python_sees_what_it_sees_at_a_broker(
    witnessed: Witnessed, provider: IdentityProvider
) -> None:
    """It dismisses the reason, tries again, and gives up: this library shows no more, at a real broker neither."""
    security = TokenSecurity(provider, claims=REFUSALS[0])
    with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
        KafkaAdminClient(
            bootstrap_servers=witnessed.sluice.bootstrap,
            bootstrap_timeout_ms=2_000,
            **security.kafka_python(),
        )


def test_java_sees_its_own_exception(
    witnessed: Witnessed, provider: IdentityProvider, java: Java, tmp_path: Path
) -> None:
    """SaslAuthenticationException with the reason of RFC 7628."""
    file = tmp_path / "token"
    file.write_text(provider.token("alice", aud="other"))
    security = TokenSecurity(provider, file=file)
    config = config_file(tmp_path / "java.properties", security.java())
    done = subprocess.run(
        allowing(java, provider, file).command(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", witnessed.sluice.bootstrap, "--list"),
            *("--command-config", config),
        ),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode != 0
    assert 'SaslAuthenticationException: {"status":"invalid_token"}' in done.stdout + done.stderr


def test_operators_see_how_a_user_was_proved(
    witnessed: Witnessed, provider: IdentityProvider
) -> None:
    """`sluice ctl connections` has the proof."""
    with Talk(witnessed.sluice.port) as talk:
        assert talk.handshake(OAUTH) == 0
        answer = talk.token(bearer(provider.token("alice")))
        assert answer is not None
        assert answer.session_lifetime_ms > 0
        assert talk.metadata()
        port = talk.own_port
        socket = f"{witnessed.sluice.directory}/admin"
        done = subprocess.run(
            [COMMAND, "ctl", "connections", "--json"],
            env={**os.environ, "SLUICE_ADMIN_SOCKET": socket},
            capture_output=True,
            check=True,
        )
    (row,) = [
        each
        for each in json.loads(done.stdout)["connections"]
        if each["client"].endswith(f":{port}")
    ]
    assert (row["user"], row["proof"]) == ("alice", "token")


def test_a_new_key_counts_from_its_first_token_on(
    witnessed: Witnessed, provider: IdentityProvider
) -> None:
    """Without a restart; a token of a key that was never published stays refused."""
    kids, provider.kids = provider.kids, ["RS256", "ES256"]
    try:
        until = time.monotonic() + WAIT_SECONDS
        while login(witnessed, provider.token("alice")) != 0:  # they were loaded just now
            assert time.monotonic() < until
            time.sleep(1)
        assert login(witnessed, signed("ES256-stranger").decode()) == FAILED
        assert login(witnessed, signed("RS256").decode()) == 0
    finally:
        provider.kids = kids


def test_a_group_of_the_token_is_a_team_of_the_rules(
    kafka_one: KafkaCluster, provider: IdentityProvider, topics_one: Topics, tmp_path: Path
) -> None:
    """What the provider says of a user is what the user may do; the proof counts, too."""
    topic = topics_one.make()
    check = {
        "jwks": provider.url("/keys"),
        "issuer": ISSUER,
        "audience": [AUDIENCE],
        "groups_claim": "groups",
    }
    rules = [
        {"who": ["team:writers"], "topics": {topic: ["write"]}},
        {"who": ["token:bob"], "topics": {topic: ["write"]}},
        {"who": ["sasl:carol", "tls:carol"], "topics": {topic: ["write"]}},
    ]
    sluice = SluiceProcess(
        kafka_one.bootstrap,
        tmp_path,
        listen_settings={"sasl": {"mechanisms": [OAUTH], "oauthbearer": check}},
        settings={"policies": [{"use": "access", "config": {"rules": rules}}]},
    )
    with sluice:
        said = {
            (user, groups): written_to(sluice, topic, TokenSecurity(provider, user, groups))
            for user in ("alice", "bob", "carol")
            for groups in ((), (("groups", "writers"),))
        }
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert [said[user, ()] for user in ("alice", "bob", "carol")] == [denied, None, denied]
    assert {code for (_, groups), code in said.items() if groups} == {None}


def written_to(sluice: SluiceProcess, topic: str, security: TokenSecurity) -> int | None:
    """Write one record; return the error's code, None if it was stored."""
    codes: list[int | None] = []
    settings = {"bootstrap.servers": sluice.bootstrap, "enable.idempotence": False}
    producer = Producer({**settings, **security.librdkafka()})
    producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error and error.code()))
    producer.flush(WAIT_SECONDS)
    (code,) = codes
    return code


def login(witnessed: Witnessed, token: str) -> int:
    """Return the error code of a login by this token, after its reason was dismissed."""
    with Talk(witnessed.sluice.port) as talk:
        assert talk.handshake(OAUTH) == 0
        answer = talk.token(bearer(token))
        assert answer is not None
        if answer.auth_bytes:
            answer = talk.token(b"\x01")
            assert answer is not None
            assert talk.is_closed()
        return answer.error_code


def test_connections_outlive_their_tokens(
    witnessed: Witnessed,
    provider: IdentityProvider,
    topics_one: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """Java and librdkafka show newer tokens on the same connection (KIP-368), and lose no record."""
    lives, provider.lives_seconds = provider.lives_seconds, LIVES_SECONDS
    security = TokenSecurity(provider)
    ids = {"librdkafka": f"c-{uuid.uuid4()}", "Java": f"j-{uuid.uuid4()}"}
    topics = {library: topics_one.make() for library in ids}
    bootstrap = witnessed.sluice.bootstrap
    settings = {"client.id": ids["librdkafka"], **security.librdkafka()}
    config = {"client.id": ids["Java"], **security.java()}
    try:
        with LoadProducer(bootstrap, topics["librdkafka"], 1, 100, settings=settings) as load:
            tool = allowing(java, provider).start_tool(
                PRODUCER,
                *("--bootstrap-server", bootstrap, "--topic", topics["Java"]),
                *("--throughput", "50"),
                *("--command-config", config_file(tmp_path / "java.properties", config)),
                output=tmp_path / "java.out",
            )
            until = time.monotonic() + 2 * WAIT_SECONDS
            while time.monotonic() < until and any(
                max(logins(witnessed, each).values(), default=0) < AUTHENTICATIONS
                for each in ids.values()
            ):
                time.sleep(1)
            tool.terminate()
            tool.wait()
    finally:
        provider.lives_seconds = lives
    load.reckon(topics_one.contents(load.topic))
    sent = acked_values((tmp_path / "java.out").read_text())
    assert len(topics_one.contents(topics["Java"])) == len(sent) > 0
    for client_id in ids.values():
        (count,) = logins(witnessed, client_id).values()
        assert count >= AUTHENTICATIONS


def logins(witnessed: Witnessed, client_id: str) -> dict[int, int]:
    """Return the connections on which this client sent records, with their number of logins."""
    seen = witnessed.seen.of_client(client_id)
    producing = {each.session_id for each in seen if each.api == "Produce"}
    return {
        one: sum(each.api == "SaslHandshake" for each in seen if each.session_id == one)
        for one in producing
    }
