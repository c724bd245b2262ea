"""The files of examples/security before a real Kafka: clients work with the settings that a file's comments give them.

Only addresses and the folder of the files are replaced, and one address of a token endpoint.
"""

import socket
import ssl
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.custody_attacks import succeeded
from tests.support.kafka.java import HOSTS, Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import MTLS, SASL_SSL
from tests.support.kafka.kafka_sasl import SCRAM_512
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import ALICE, SLUICE, Files, write_users
from tests.support.kafka.three_libraries import COUNT, LIBRARIES, move
from tests.support.kafka.token_security import TokenSecurity, allowing
from tests.support.kafka.topics import Topics
from tests.support.messages.sasl import FAILED, Scram, bearer
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.certificates import Authority
from tests.support.shell.token_endpoint import TokenEndpoint
from tests.support.shell.token_issuer import IdentityProvider
from tests.support.telemetry.usage_log import shown

pytestmark = pytest.mark.slow

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples" / "security"
HOST: Final = "kafka.example.com"
APP: Final = ("billing", "billing-secret-of-sluice")
ANSWERED_HERE: Final = {"DescribeClientQuotas"}
"""The quotas of Sluice are shown to all; those of the brokers are not."""
SECRET: Final = "the-client's-secret"  # noqa: S105 - a made-up secret
ACCOUNT: Final = "token-of-the-account-of-sluice"


@pytest.fixture(scope="module")
def topics(kafka_secure: KafkaCluster) -> Topics:
    """Topics by the listener without authentication."""
    return Topics(kafka_secure.bootstrap, 1)


def example(name: str, upstream: str, directory: Path, **variables: str) -> SluiceProcess:
    """Return a Sluice with this file; what it names below /etc/sluice is in `directory`."""
    text = (EXAMPLES / name).read_text("utf-8").replace("/etc/sluice", str(directory))
    url = variables.pop("token_endpoint_url", "")
    text = text.replace("https://login.provider.example.com/oauth2/token", url)
    file = directory / name
    file.write_text(text, "utf-8")
    variables["SLUICE_USAGE_LOG_DIRECTORY"] = str(directory / "usage")
    return SluiceProcess(upstream, directory, config=file, variables=variables)


def users(directory: Path) -> set[Any]:
    """Return the users of the requests that wrote and read."""
    rows = shown(directory / "usage", "api")
    return {row["user"] for row in rows if row["api"] in {"Produce", "Fetch"}}


def move_all(
    libraries: tuple[str, ...],
    java: Java,
    bootstrap: str,
    topics: Topics,
    security: ClientSecurity,
    folder: Path,
) -> None:
    """Write and read records with each library."""
    for library in libraries:
        topic = topics.make()
        move(library, java, bootstrap, topic, security, folder)
        assert len(topics.contents(topic)) == COUNT


def test_a_sidecar_before_tls_and_scram(
    kafka_secure: KafkaCluster, authority: Authority, topics: Topics, java: Java, tmp_path: Path
) -> None:
    """The application has no TLS of its own; the broker accepts its user, and Sluice counts for it."""
    (tmp_path / "ca.crt").write_bytes(authority.ca_file.read_bytes())
    sluice = example("sidecar.yaml", kafka_secure.bootstrap_of(SASL_SSL), tmp_path)
    security = ClientSecurity(SCRAM_512, *ALICE)
    with sluice:
        move_all(LIBRARIES, java, sluice.bootstrap, topics, security, tmp_path)

    assert users(tmp_path) == {ALICE[0]}


def test_custody(
    kafka_secure: KafkaCluster,
    security_files: Files,
    topics: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """An application has a user of Sluice's, which the brokers refuse: there is no way without Sluice."""
    (tmp_path / "ca.crt").write_bytes(security_files.ca.read_bytes())
    (tmp_path / "tls.crt").write_bytes(security_files.server.cert_file.read_bytes())
    (tmp_path / "tls.key").write_bytes(security_files.server.key_file.read_bytes())
    (tmp_path / "password").write_text(f"{SLUICE[1]}\n")
    write_users(tmp_path / "users", dict([APP]))
    address = {"SLUICE_LISTEN_ADVERTISED_HOST": "127.0.0.1"}
    sluice = example("custody.yaml", kafka_secure.bootstrap_of(SASL_SSL), tmp_path, **address)
    security = ClientSecurity(SCRAM_512, *APP, ca_file=security_files.ca)
    with sluice:
        move_all(LIBRARIES, java, sluice.bootstrap, topics, security, tmp_path)
        context = ssl.create_default_context(cafile=str(security_files.ca))
        with Talk(sluice.port, context=context) as talk:
            assert talk.scram(Scram(SCRAM_512, *APP)) is not None
            assert succeeded(talk) == ANSWERED_HERE

    assert users(tmp_path) == {APP[0]}
    broker = kafka_secure.brokers[1]
    with Talk(broker.further["SASL_PLAINTEXT"], broker.host) as talk:
        answer = talk.scram(Scram(SCRAM_512, *APP))
        assert answer is not None
        assert answer.error_code == FAILED


def test_a_hosted_kafka(
    kafka_secure: KafkaCluster,
    security_files: Files,
    topics: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """The application has neither TLS nor a login; Sluice fetches the tokens, and counts for the sidecar's user."""
    (tmp_path / "client-secret").write_text(SECRET)
    trusted = {  # a test's authority is none of the system's
        "SSL_CERT_FILE": str(security_files.ca),
        "REQUESTS_CA_BUNDLE": str(security_files.ca),
    }
    with TokenEndpoint(security_files.server, SLUICE[0], ("billing", SECRET), 3600) as endpoint:
        sluice = example(
            "hosted.yaml",
            kafka_secure.bootstrap_of(SASL_SSL),
            tmp_path,
            token_endpoint_url=endpoint.url,
            **trusted,
        )
        with sluice:
            move_all(LIBRARIES, java, sluice.bootstrap, topics, ClientSecurity(), tmp_path)
            with Talk(sluice.port) as talk:
                assert succeeded(talk) == set()
        assert endpoint.asked == 1  # for all connections
        assert endpoint.scopes == {"kafka"}

    assert users(tmp_path) == {"billing"}


def test_pods_of_kubernetes(
    kafka_secure: KafkaCluster,
    security_files: Files,
    topics: Topics,
    java: Java,
    tmp_path: Path,
) -> None:
    """A pod shows the token of its service account, and the broker sees Sluice's user alone."""
    (tmp_path / "brokers-ca.pem").write_bytes(security_files.ca.read_bytes())
    (tmp_path / "tls.crt").write_bytes(security_files.server.cert_file.read_bytes())
    (tmp_path / "tls.key").write_bytes(security_files.server.key_file.read_bytes())
    (tmp_path / "password").write_text(f"{SLUICE[1]}\n")
    (tmp_path / "token").write_text(ACCOUNT)
    kubernetes = "https://kubernetes.default.svc.cluster.local"
    with IdentityProvider("RS256", pair=security_files.server) as api_server:
        api_server.bearer = ACCOUNT  # as Sluice's own account
        variables = {
            "SLUICE_LISTEN_ADVERTISED_HOST": "127.0.0.1",
            "SLUICE_LISTEN_SASL_OAUTHBEARER_JWKS": api_server.url("/openid/v1/jwks"),
            "SLUICE_LISTEN_SASL_OAUTHBEARER_JWKS_CA_FILE": str(security_files.ca),
            "SLUICE_LISTEN_SASL_OAUTHBEARER_JWKS_TOKEN_FILE": str(tmp_path / "token"),
        }
        bootstrap = kafka_secure.bootstrap_of(SASL_SSL)
        sluice = example("pods.yaml", bootstrap, tmp_path, **variables)
        pod = "system:serviceaccount:shop:orders"
        file = tmp_path / "pod-token"
        file.write_text(api_server.token(pod, iss=kubernetes, aud=["kafka"]))
        security: Any = TokenSecurity(
            api_server, pod, (("iss", kubernetes),), ca_file=security_files.ca, file=file
        )
        with sluice:
            allowed = allowing(java, api_server, file)
            move_all(LIBRARIES, allowed, sluice.bootstrap, topics, security, tmp_path)
            context = ssl.create_default_context(cafile=str(security_files.ca))
            with Talk(sluice.port, context=context) as talk:
                assert talk.handshake("OAUTHBEARER") == 0
                other = talk.token(bearer(api_server.token(pod, iss=kubernetes, aud="vault")))
                assert other is not None
                assert other.auth_bytes == b'{"status":"invalid_token"}'
        assert api_server.asked.keys() == {"/openid/v1/jwks"}

    assert users(tmp_path) == {"shop.orders"}


def test_a_gateway(
    kafka_secure: KafkaCluster,
    authority: Authority,
    security_files: Files,
    topics: Topics,
    java: Java,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One port serves bootstrap and broker by name; the user is the certificate's common name in lower case.

    librdkafka resolves names by the system alone, which does not know these: it is left out.
    """
    server = authority.issue(HOST, f"*.{HOST}", file_name="gateway")
    client = authority.issue("client.test", common_name="Billing", file_name="billing")
    for name, source in (
        ("ca.crt", authority.ca_file),
        ("clients-ca.crt", authority.ca_file),
        ("tls.crt", server.cert_file),
        ("tls.key", server.key_file),
        ("sluice.crt", security_files.sluice.cert_file),
        ("sluice.key", security_files.sluice.key_file),
    ):
        (tmp_path / name).write_bytes(source.read_bytes())
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **named: resolve(
            "127.0.0.1" if host in HOSTS else host, *more, **named
        ),
    )
    sluice = example("gateway.yaml", kafka_secure.bootstrap_of(MTLS), tmp_path)
    security = ClientSecurity(ca_file=authority.ca_file, certificate=client)
    with sluice:
        bootstrap = f"{HOST}:{sluice.port}"
        move_all(("kafka-python", "Java"), java, bootstrap, topics, security, tmp_path)
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        context.load_cert_chain(client.cert_file, client.key_file)
        with Talk(sluice.port, HOST, context) as talk:
            assert succeeded(talk) == ANSWERED_HERE

    assert users(tmp_path) == {"billing"}
