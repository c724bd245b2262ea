"""Hostile TLS clients, by the real `openssl s_client`: each is refused or closed, and honest clients notice nothing."""

import json
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages.raw import api_versions_request, receive, receive_until_closed
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.certificates import Authority
from tests.support.shell.tls import hello_asking_for

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
BOOTSTRAP = "kafka.test"


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def settings(sluice: SluiceProcess, authority: Authority, **tls: object) -> dict[str, object]:
    """Return the section `listen` of a Sluice with TLS."""
    own = authority.issue(BOOTSTRAP, f"*.{BOOTSTRAP}", "127.0.0.1", file_name="own")
    files = {"cert_file": str(own.cert_file), "key_file": str(own.key_file)}
    return {
        "address": sluice.address,
        "port": sluice.port,
        "nodes": "0-7",
        "advertised_host": BOOTSTRAP,
        "tls": files | tls,
    }


@pytest.fixture
def sluice(broker: StubBroker, tmp_path: Path, authority: Authority):
    made = SluiceProcess(broker.server, tmp_path)
    made.settings["listen"] = settings(made, authority)
    with made:
        yield made


def s_client(sluice: SluiceProcess, *options: str, typed: bytes = b"") -> str:
    """Return what `openssl s_client` says."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"{sluice.address}:{sluice.port}", *options],
        input=typed,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return (done.stdout + done.stderr).decode(errors="replace")


def _has_line(sluice: SluiceProcess, event: str, reason: str) -> bool:
    return any(event in line and reason in line for line in sluice.said().splitlines())


def connect(sluice: SluiceProcess, authority: Authority, name: str = BOOTSTRAP) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    plain = socket.create_connection((sluice.address, sluice.port), 60)
    return context.wrap_socket(plain, server_hostname=name)


def ask(client: ssl.SSLSocket, correlation_id: int = 1) -> None:
    """Ask for ApiVersions, and read the beginning of the answer."""
    client.sendall(api_versions_request(correlation_id))
    size = int.from_bytes(receive(client, 4), "big")
    assert receive(client, size)[:4] == correlation_id.to_bytes(4, "big")


def test_a_key_update_in_the_middle_changes_nothing(sluice: SluiceProcess):
    """`K` sends one and asks for Sluice's; the request after it is answered."""
    request = api_versions_request(7)
    process = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"{sluice.address}:{sluice.port}", "-tls1_3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = b""
        while b"Verify return code" not in said:
            said += process.stdout.read1(1 << 16)
        process.stdin.write(b"K\n")
        process.stdin.flush()
        while b"KEYUPDATE" not in said:
            said += process.stdout.read1(1 << 16)
        process.stdin.write(request)
        process.stdin.flush()
        answer = b""
        while request[8:12] not in answer:
            answer += process.stdout.read1(1 << 16)
        process.kill()
    assert "session_closed" not in sluice.said()


def test_with_server_names_a_wrong_name_is_refused_and_each_node_has_its_own(
    broker: StubBroker, tmp_path: Path, authority: Authority
):
    """One port serves all; the alert is `unrecognized name`."""
    made = SluiceProcess(broker.server, tmp_path)
    made.settings["listen"] = settings(made, authority, sni_pattern=f"broker-$(node).{BOOTSTRAP}")
    with made as sluice:
        for wrong in (
            ("-servername", "other.test"),
            ("-servername", "broker-9.kafka.test"),
            ("-noservername",),
        ):
            assert "unrecognized name" in s_client(sluice, *wrong)
        for name in (BOOTSTRAP, f"broker-1.{BOOTSTRAP}", f"BROKER-1.{BOOTSTRAP}"):
            with connect(sluice, authority, name) as client:
                ask(client)


def test_a_strange_server_name_costs_one_line_of_the_log_and_nothing_else(
    broker: StubBroker, tmp_path: Path, authority: Authority
):
    """No ASCII, no host name, no broker's: 50 of each kind and more. Every line is the log's, and its limits hold."""
    made = SluiceProcess(broker.server, tmp_path)
    made.settings["listen"] = settings(made, authority, sni_pattern=f"broker-$(node).{BOOTSTRAP}")
    made.settings["log"] = {"format": "json"}
    total = 0
    with made as sluice:
        for name, reason in (
            (b"\xe4.kafka.test", "not ASCII"),
            (b"\x1b[2J\n", "which is no broker"),
            (b"other.kafka.test", "'other.kafka.test'"),
        ):
            sent = 0
            while sent < 50 or not _has_line(sluice, "handshake_failed", reason):
                with socket.create_connection((sluice.address, sluice.port), 60) as client:
                    client.sendall(hello_asking_for(name))
                    receive_until_closed(client)
                sent += 1
            total += sent
        with connect(sluice, authority) as client:
            ask(client)
    said = [line for line in sluice.said().splitlines() if not line.startswith("hint: ")]
    lines = [json.loads(line) for line in said]
    refused = [line for line in lines if line["event"] == "handshake_failed"]
    assert {line["event"] for line in lines} <= {
        *("ready", "memory_budget", "handshake_failed", "draining", "stopped", "node_learned"),
        *("admin_socket_unavailable", "slow_step", "log_lines_suppressed"),
    }
    assert all(len(json.dumps(line)) < 1000 for line in refused)
    assert len(refused) + sum(line.get("suppressed", 0) for line in refused) <= total


def test_a_rotated_certificate_is_shown_after_a_reload_and_drops_no_connection(
    sluice: SluiceProcess, authority: Authority
):
    """A broken file in between changes nothing; the log has both."""

    def serial() -> object:
        with connect(sluice, authority) as fresh:
            return fresh.getpeercert()["serialNumber"]

    before = serial()
    with connect(sluice, authority) as client:
        ask(client, 1)
        own = authority.issue(BOOTSTRAP, file_name="own")
        whole = own.cert_file.read_bytes()
        own.cert_file.write_bytes(whole[: len(whole) // 2])
        sluice.reload()
        await_that(lambda: "certificates_refused" in sluice.said(), "the log tells it")
        assert serial() == before
        ask(client, 2)
        own.cert_file.write_bytes(whole)
        sluice.reload()
        await_that(lambda: "certificates_loaded" in sluice.said(), "the log tells it")
        assert serial() != before
        ask(client, 3)


def test_plaintext_at_the_tls_port_is_named_in_the_log(sluice: SluiceProcess):
    """Kafka without TLS, and HTTP."""
    for sent in (api_versions_request(1), b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection((sluice.address, sluice.port), 60) as client:
            client.sendall(sent)
            assert receive_until_closed(client) == b""
    await_that(lambda: "looks like HTTP" in sluice.said(), "the log tells it")
    await_that(lambda: "looks like Kafka without TLS" in sluice.said(), "the log tells it")
