"""T12: old protocols, weak ciphers, renegotiation, protocols of the web, expired certificates, floods of handshakes.

TLS 1.2 or later, ECDHE with authenticated ciphers, no renegotiation. openssl speaks; a server of its own, without these
rules, takes what Sluice refuses. `tests/faults` has the floods (`test_tls_handshake_flood.py`), server names and
rotated certificates (`test_tls_clients.py`).
"""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.harness.ports import free_ports
from bench.harness.processes import wait_accepting
from tests.support.faults.honest import receive_frames
from tests.support.messages import frames as f
from tests.support.processes.measured import tell
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.certificates import Authority, Pair

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
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
    return authority.issue("127.0.0.1", "localhost")


def listening(start, upstream: str, pair: Pair, **tls: object) -> SluiceProcess:
    """Start a Sluice that speaks TLS to clients."""
    files = {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file)}
    return start(upstream, listen_settings={"tls": {**files, **tls}})


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
    files = ("-cert", str(own.cert_file), "-key", str(own.key_file))
    lax = ("-cipher", "ALL:@SECLEVEL=0", "-client_renegotiation", "-quiet")
    with subprocess.Popen(
        ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", *files, *lax],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        wait_accepting(server, "127.0.0.1", port, lambda: "", 60)
        yield port
        server.kill()


def trusting(authority: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """Return a client's context."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    if pair is not None:
        context.load_cert_chain(pair.cert_file, pair.key_file)
    return context


def is_served(port: int, context: ssl.SSLContext) -> bool:
    """Return whether a client gets a reply; in TLS 1.3 a refusal comes after its part of the handshake."""
    with socket.create_connection(("127.0.0.1", port), 60) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(f.heartbeat(1))
                return bool(receive_frames(client, 1))
        except OSError:
            return False


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
        assert is_served(sluice.port, context) == is_welcome, offered


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
        assert is_served(sluice.port, trusting(authority, pair)) == is_welcome
