"""The probe of a bootstrap address tells each kind of server apart from the others."""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.config.security import UpstreamSasl, UpstreamTls
from proxy.config.upstream import UpstreamSettings
from proxy.preflight.broker_probe import BrokerReport, probe
from tests.support.shell.certificates import Authority
from tests.support.shell.tls_front import TlsFront

Answer = Callable[[bytes], bytes | None]

API_VERSIONS, METADATA, SASL_HANDSHAKE = 18, 3, 17


async def probed(
    port: int, tls: UpstreamTls | None = None, sasl: UpstreamSasl | None = None
) -> BrokerReport:
    server = f"127.0.0.1:{port}"
    upstream = UpstreamSettings(
        bootstrap_servers=(server,), tls=tls, sasl=sasl, socket_connection_setup_timeout_ms=5000
    )
    return await probe("127.0.0.1", port, upstream)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def versions() -> bytes:
    return frame(struct.pack(">ihi", 0, 0, 1) + struct.pack(">hhh", 3, 0, 12))


def metadata(correlation_id: bytes) -> bytes:
    broker = struct.pack(">ih", 7, 1) + b"k" + struct.pack(">ih", 9092, -1)
    return frame(correlation_id + struct.pack(">i", 1) + broker + struct.pack(">ii", 7, 0))


def kafka(request: bytes) -> bytes | None:
    key = struct.unpack_from(">h", request, 4)[0]
    return {API_VERSIONS: versions(), METADATA: metadata(request[8:12])}.get(key)


def kafka_with_sasl(request: bytes) -> bytes | None:
    key = struct.unpack_from(">h", request, 4)[0]
    names = b"".join(struct.pack(">h", len(each)) + each for each in (b"SCRAM-SHA-512", b"PLAIN"))
    handshake = frame(struct.pack(">ihi", 0, 0, 2) + names)
    return {API_VERSIONS: versions(), SASL_HANDSHAKE: handshake}.get(key)


def http(_: bytes) -> bytes | None:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def tls_alert(_: bytes) -> bytes | None:
    return b"\x15\x03\x03\x00\x02\x02\x28"


def chatter(_: bytes) -> bytes | None:
    return b"+OK redis\r\n"


def closes(_: bytes) -> bytes | None:
    return None


def served(answer: Answer) -> Callable[[trio.SocketStream], Awaitable[None]]:
    """Return a server that answers each frame, or each piece of other protocols; None closes."""

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        while more := await stream.receive_some():
            data += more
            while len(data) >= 4:
                size = 4 + struct.unpack_from(">i", data)[0]
                size = size if 12 <= size <= 1000 else len(data)
                if len(data) < size:
                    break
                reply = answer(data[:size])
                data = data[size:]
                if reply is None:
                    return
                await stream.send_all(reply)

    async def serve_until_gone(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await serve(stream)

    return serve_until_gone


async def started(nursery: trio.Nursery, handler: Callable[..., Awaitable[None]]) -> int:
    listeners = await nursery.start(partial(trio.serve_tcp, handler, 0, host="127.0.0.1"))
    port: int = listeners[0].socket.getsockname()[1]
    return port


async def test_a_kafka_broker_names_its_brokers(nursery: trio.Nursery) -> None:
    """They are the addresses that it would give to a client."""
    report = await probed(await started(nursery, served(kafka)))
    assert report.problem == ""
    assert report.brokers == {7: ("k", 9092)}


async def test_a_broker_that_requires_sasl_is_reported_without_a_problem(
    nursery: trio.Nursery,
) -> None:
    """Its clients authenticate through Sluice."""
    report = await probed(await started(nursery, served(kafka_with_sasl)))
    assert report.problem == ""
    assert "SASL (SCRAM-SHA-512, PLAIN)" in report.note


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http, "it speaks HTTP"),
        (tls_alert, "it requires TLS"),
        (chatter, "it does not speak the Kafka protocol; it answered b'+OK redis"),
        (closes, "does not answer ApiVersions"),
    ],
)
async def test_a_server_with_another_protocol_is_named(
    nursery: trio.Nursery, answer: Answer, words: str
) -> None:
    """The user then knows which address to change."""
    report = await probed(await started(nursery, served(answer)))
    assert words in report.problem
    assert report.brokers == {}


async def test_a_tls_listener_is_recognised() -> None:
    """It is recognised by its alert, because the test has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):  # the request in plain text, then the handshake
            client, _ = listener.accept()
            with client, suppress(OSError):
                context.wrap_socket(client, server_side=True).close()

    thread = threading.Thread(target=serve)
    thread.start()
    report = await probed(listener.getsockname()[1])
    assert "it requires TLS" in report.problem
    with suppress(OSError):
        socket.create_connection(listener.getsockname(), 1).close()  # ends the second accept
    thread.join()
    listener.close()


async def test_a_port_without_a_listener_is_reported() -> None:
    """The message is the operating system's."""
    report = await probed(free_ports())
    assert report.problem.endswith("Connection refused")


async def test_a_server_that_never_answers_is_reported(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Each request has a timeout."""
    report = await probed(await started(nursery, silent))
    assert report.problem == "it accepts connections, but does not answer ApiVersions"


async def silent(stream: trio.SocketStream) -> None:
    async with stream:
        await trio.sleep_forever()


async def test_a_broker_with_tls_shows_its_certificate(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Version, names and end are those that Sluice's own connections get."""
    authority = Authority(tmp_path)
    pair = authority.issue("127.0.0.1", common_name="broker")
    port = await started(nursery, served(kafka))
    with TlsFront(("127.0.0.1", port), pair) as front:
        report = await probed(front.port, UpstreamTls(ca_file=str(authority.ca_file)))
    assert report.problem == ""
    assert report.brokers == {7: ("k", 9092)}
    assert report.tls.startswith("TLSv1.3, TLS_")
    assert report.certificate is not None
    assert report.certificate.subject.startswith("CN=broker,")
    assert report.certificate.names == ("127.0.0.1",)
    assert report.certificate.ends_s > time.time()


@pytest.mark.parametrize(
    ("name", "client_ca", "words"),
    [
        ("elsewhere", False, "certificate verify failed: IP address mismatch"),
        ("127.0.0.1", True, "required: the broker demands a client certificate"),
    ],
)
async def test_a_refusal_of_tls_is_reported_in_the_words_of_openssl(
    nursery: trio.Nursery,
    tmp_path: Path,
    name: str,
    client_ca: bool,  # noqa: FBT001 - a case of the table
    words: str,
) -> None:
    """The certificate has another name, or the broker asks for one of ours."""
    authority = Authority(tmp_path)
    port = await started(nursery, served(kafka))
    ca_file = str(authority.ca_file)
    front = TlsFront(("127.0.0.1", port), authority.issue(name), ca_file if client_ca else "")
    with front:
        report = await probed(front.port, UpstreamTls(ca_file=ca_file))
    assert words in report.problem
    assert report.brokers == {}


async def test_a_broker_without_tls_is_reported_if_the_settings_have_tls(
    nursery: trio.Nursery,
) -> None:
    """It answers in plain text, so the address is right and the setting is not."""
    report = await probed(await started(nursery, served(kafka)), UpstreamTls())
    assert report.problem == "it speaks Kafka without TLS, but upstream.tls is set"


async def test_credentials_that_a_broker_refuses_are_a_problem(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The message names the mechanisms that it offers, and no secret."""
    file = tmp_path / "password"
    file.write_text("sesame")
    sasl = UpstreamSasl(mechanism="SCRAM-SHA-256", username="sluice", password_file=str(file))
    report = await probed(await started(nursery, served(kafka_with_sasl)), sasl=sasl)
    assert report.problem.startswith("it does not let Sluice in: ")
    assert "sesame" not in report.problem
