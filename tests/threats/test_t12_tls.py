"""T12: old protocols, weak ciphers, renegotiation, protocols of the web, wrong names, expired certificates, floods of
handshakes.

TLS 1.2 or later, ECDHE with authenticated ciphers, no renegotiation. At most 64 handshakes are open, only of clients
whose hello is whole, and the event loop has its turn between two steps of them. openssl speaks; a server of its own,
without these rules, takes what Sluice refuses.
"""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.harness.ports import free_ports
from bench.harness.processes import wait_accepting
from tests.support.faults.honest import Honest, receive_frames
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.processes.measured import scaled, tell
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.certificates import Authority, Pair

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
FLOOD = scaled(300, 2_000)
WORST_CPU_S = 0.25
NAME = "kafka.example.com"
SNI = "broker-$(node).kafka.example.com"
WEAK = {
    "TLS 1.1": ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"],
    "TLS 1.0": ["-tls1", "-cipher", "ALL:@SECLEVEL=0"],
    "a cipher without authentication of data": ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"],
    "the same with SHA-256": ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"],
    "CCM": ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-CCM8"],
}
STRONG = {
    "TLS 1.2": ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
    "TLS 1.3": ["-tls1_3"],
}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def own(authority: Authority) -> Pair:
    """Sluice's certificate."""
    return authority.issue("127.0.0.1", "localhost", NAME, f"*.{NAME}")


def listening(start, upstream: str, pair: Pair, **tls: object) -> SluiceProcess:
    """Start a Sluice that speaks TLS to clients."""
    files = {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file)}
    listen: dict[str, object] = {"tls": {**files, **tls}}
    if "sni_pattern" in tls:
        listen["advertised_host"] = NAME
    sluice = start(upstream, listen_settings=listen)
    assert isinstance(sluice, SluiceProcess)
    return sluice


def s_client(port: int, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Connect by openssl."""
    return subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def is_connected(ran: subprocess.CompletedProcess[str]) -> bool:
    """Whether the handshake ended well."""
    return ran.returncode == 0 and "Cipher is (NONE)" not in ran.stdout


@pytest.fixture
def lax(own: Pair) -> Iterator[int]:
    """The port of a server that takes what Sluice refuses."""
    port = free_ports("127.0.0.1")
    arguments = [
        "-cert",
        str(own.cert_file),
        "-key",
        str(own.key_file),
        "-cipher",
        "ALL:@SECLEVEL=0",
    ]
    with subprocess.Popen(
        ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", *arguments, "-client_renegotiation", "-quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        wait_accepting(server, "127.0.0.1", port, lambda: "", 60)
        yield port
        server.kill()


class Secured(Honest):
    """An honest client that speaks TLS."""

    def __init__(self, sluice: SluiceProcess, authority: Authority) -> None:
        super().__init__(sluice.port, pid=sluice.pid)
        self.socket = trusting(authority).wrap_socket(self.socket, server_hostname="localhost")


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """Return a client's context."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    if pair is not None:
        context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def test_old_protocols_and_weak_ciphers_are_refused(start, broker, own, lax) -> None:
    """Each client could connect: a server without Sluice's rules takes it."""
    sluice = listening(start, broker.server, own)
    for kind, arguments in {**WEAK, **STRONG}.items():
        assert is_connected(s_client(lax, *arguments)), (
            f"{kind}: this client cannot speak it at all"
        )
    for kind, arguments in WEAK.items():
        assert not is_connected(s_client(sluice.port, *arguments)), kind
    for kind, arguments in STRONG.items():
        assert is_connected(s_client(sluice.port, *arguments)), kind
    tell("T12", f"{len(WEAK)} old protocols and weak ciphers refused, {len(STRONG)} accepted")


def test_renegotiation_is_refused(start, broker, own, lax) -> None:
    """A client of TLS 1.2 that asks for it is disconnected, or told no; the other server agrees."""
    sluice = listening(start, broker.server, own)
    said = {}
    for name, port in (("lax", lax), ("sluice", sluice.port)):
        ran = s_client(port, "-tls1_2", "-legacy_renegotiation", typed="R\n")
        assert "RENEGOTIATING" in ran.stdout + ran.stderr
        said[name] = ran.stdout + ran.stderr
    assert "no renegotiation" in said["sluice"] or "no_renegotiation" in said["sluice"]
    assert "no renegotiation" not in said["lax"]


def test_protocols_of_the_web_are_refused(start, broker, own, authority) -> None:
    """A client that offers only these (ALPN) is disconnected before a byte of Kafka."""
    sluice = listening(start, broker.server, own)
    for offered, is_welcome in ((["h2", "http/1.1"], False), (["http/1.1"], False), ([], True)):
        context = trusting(authority)
        if offered:
            context.set_alpn_protocols(offered)
        with socket.create_connection(("127.0.0.1", sluice.port), 60) as plain:
            got = b""
            try:
                with context.wrap_socket(plain, server_hostname="localhost") as client:
                    client.sendall(f.heartbeat(1))
                    got = b"".join(receive_frames(client, 1))
            except OSError:
                assert not is_welcome
        assert bool(got) == is_welcome, offered


def test_only_names_of_the_pattern_are_served(start, broker, own) -> None:
    """With `sni_pattern`, another name and none at all end in the handshake."""
    sluice = listening(start, broker.server, own, sni_pattern=SNI)
    for name, is_welcome in (
        (f"broker-1.{NAME}", True),
        (NAME, True),
        ("evil.example.com", False),
        (f"broker-99.{NAME}", False),
        (f"broker-1.{NAME}.evil.example", False),
    ):
        assert is_connected(s_client(sluice.port, "-servername", name)) == is_welcome, name
    assert not is_connected(s_client(sluice.port, "-noservername"))


def test_an_expired_client_certificate_is_refused(start, broker, own, authority) -> None:
    """And one of another authority, and none, where a certificate is required."""
    now = datetime.now(UTC)
    sluice = listening(
        start, broker.server, own, client_ca_file=str(authority.ca_file), client_auth="required"
    )
    good = authority.issue("alice", common_name="alice")
    expired = authority.issue("bob", common_name="bob", not_after=now - timedelta(days=1))
    foreign = Authority(authority.directory / "foreign").issue("carol", common_name="carol")
    for pair, is_welcome in ((good, True), (expired, False), (foreign, False), (None, False)):
        with socket.create_connection(("127.0.0.1", sluice.port), 60) as plain:
            got = b""
            try:  # in TLS 1.3 the refusal comes after the client's part of the handshake
                with trusting(authority, pair).wrap_socket(
                    plain, server_hostname="localhost"
                ) as client:
                    client.sendall(f.heartbeat(1))
                    got = b"".join(receive_frames(client, 1))
            except OSError:
                assert not is_welcome
        assert bool(got) == is_welcome


def test_a_new_certificate_disconnects_no_client(start, broker, own, authority) -> None:
    """New connections see it; a client that stays is served before and after."""
    sluice = listening(start, broker.server, own)

    def serial() -> str:
        shown = s_client(sluice.port, "-showcerts").stdout
        return subprocess.run(
            ["openssl", "x509", "-noout", "-serial"], input=shown, capture_output=True, text=True, check=True
        ).stdout  # fmt: skip

    with Secured(sluice, authority) as honest:
        honest.ask()
        before = serial()
        fresh = authority.issue("127.0.0.1", "localhost", file_name="fresh")
        own.key_file.write_bytes(fresh.key_file.read_bytes())
        own.cert_file.write_bytes(fresh.cert_file.read_bytes())
        sluice.reload()

        def is_new() -> bool:
            honest.ask()
            return serial() != before

        await_that(is_new, "the new certificate")
        honest.ask()
    tell(
        "T12",
        f"a certificate rotated under load: {honest.asked} requests on one connection, 0 lost",
    )


def test_a_flood_of_handshakes_delays_no_connected_client(start, broker, own, authority) -> None:
    """Clients that connect at once, and some that begin a handshake and say no more: a connected client is served."""
    sluice = listening(start, broker.server, own)
    context = trusting(authority)
    failed: list[OSError] = []

    def connect(count: int) -> None:
        for number in range(count):
            try:
                with socket.create_connection(("127.0.0.1", sluice.port), 60) as plain:
                    if number % 10 == 9:
                        plain.sendall(b"\x16\x03\x01\x02\x00")
                    else:
                        context.wrap_socket(plain, server_hostname="localhost").close()
            except OSError as error:
                failed.append(error)

    with Secured(sluice, authority) as honest:
        honest.ask()
        honest.waits_s.clear()
        honest.worst_cpu_s = 0
        threads = [threading.Thread(target=connect, args=(FLOOD // 20,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            honest.ask()
        waits_ms = sorted(wait * 1000 for wait in honest.waits_s)
        tell("T12", f"{FLOOD} handshakes, 20 at a time: honest p99 {waits_ms[len(waits_ms) * 99 // 100]:.0f} ms, "
             f"{honest.worst_cpu_s * 1000:.0f} ms of CPU at most")  # fmt: skip
    assert not failed, failed[:3]
    assert honest.worst_cpu_s < WORST_CPU_S
