"""Finds out which protocol a bootstrap server speaks, for `sluice check --connect`.

Rules:
- It asks as a client does: ApiVersions, then Metadata. An answer shows that the server is a Kafka broker.
- If the server gives another answer, further connections try TLS, HTTP and SASL. Each connection has one deadline.
- Certificates are not verified: only the protocol matters here, not the identity of the server.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from struct import Struct, error
from typing import TYPE_CHECKING

import trio

from proxy.shell.dialer import DialError, connect
from wire import metadata
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.config import Config

MAX_ANSWER_BYTES = 4 << 20
MIN_TIMEOUT_S = 1.0
_HEADER = Struct(">hhih")  # api_key, api_version, correlation_id, no client id
_SIZE = Struct(">i")
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
_MECHANISM = b"PLAIN"


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """The findings about one server. `problem`: why Sluice cannot use it, or empty; `note`: a remark."""

    server: str
    problem: str = ""
    note: str = ""
    brokers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Node id to address, as the broker reports them; empty if it does not."""


def probe_brokers(config: Config) -> list[BrokerReport]:
    """Return what answers at each bootstrap server of the configuration."""
    timeout_s = config.upstream.socket_connection_setup_timeout_ms / 1000

    async def probe_each() -> list[BrokerReport]:
        return [await probe(*address, timeout_s) for address in config.upstream.addresses()]

    return trio.run(probe_each)


async def probe(host: str, port: int, timeout_s: float) -> BrokerReport:
    """Return what the server at this address speaks. Takes four times `timeout_s` at most."""
    server = f"{host}:{port}"
    talk = _Talk(host, port, max(timeout_s, MIN_TIMEOUT_S))
    try:
        versions = await talk.ask([_frame(ApiKey.API_VERSIONS, 0, b"")])
    except DialError as failed:
        return BrokerReport(server, failed.detail.removeprefix(server).lstrip(": "))
    if not _is_versions(versions):
        return BrokerReport(server, await _other_protocol(talk, versions))
    answers = await talk.ask([_frame(ApiKey.API_VERSIONS, 0, b""), metadata.brokers_request()], 2)
    try:
        brokers = metadata.read_brokers(_second(answers))
    except (WireError, error):
        return BrokerReport(server, note=await _sasl(talk))
    named = {node: (name.decode(errors="replace"), at) for node, (name, at) in brokers.items()}
    return BrokerReport(server, brokers=named)


class _Talk:
    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s

    async def ask(self, questions: list[bytes], frames: int = 1) -> bytes:
        """Send the questions and return the answer: so many frames, or fewer at the end of stream or the deadline.

        Raises DialError if the connection is refused.
        """
        received = bytearray()
        with trio.move_on_after(self._timeout_s):
            async with await connect(self._host, self._port) as stream:
                try:
                    await stream.send_all(b"".join(questions))
                    while not _is_whole(received, frames) and len(received) < MAX_ANSWER_BYTES:
                        data = await stream.receive_some()
                        if not data:
                            break
                        received += data
                except trio.BrokenResourceError:
                    pass
        return bytes(received)

    async def speaks_tls(self) -> str:
        """Return the TLS version of the server; empty if it does not speak TLS."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with trio.move_on_after(self._timeout_s):
            try:
                plain = await connect(self._host, self._port)
            except DialError:
                return ""
            stream = trio.SSLStream(plain, context)
            try:
                await stream.do_handshake()
                return str(stream.version())
            except trio.BrokenResourceError as broken:
                # An alert is an answer in TLS; any other bytes are not.
                cause = broken.__cause__
                is_alert = isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or "")
                return "TLS" if is_alert else ""
            finally:
                await trio.aclose_forcefully(plain)
        return ""


async def _other_protocol(talk: _Talk, answer: bytes) -> str:
    """Return in words what a server is that does not answer ApiVersions."""
    if answer.startswith(b"HTTP/"):
        return "it speaks HTTP, not the Kafka protocol"
    if answer[:1] == bytes([_TLS_ALERT]) or answer[:1] == bytes([_TLS_HANDSHAKE]):
        return _requires_tls("TLS")
    version = await talk.speaks_tls()
    if version:
        return _requires_tls(version)
    spoken = await talk.ask([b"GET / HTTP/1.0\r\n\r\n"])
    if spoken.startswith(b"HTTP/"):
        return "it speaks HTTP, not the Kafka protocol"
    if answer:
        return f"it does not speak the Kafka protocol; it answered {answer[:16]!r}"
    return "it accepts connections, but does not answer ApiVersions"


def _requires_tls(version: str) -> str:
    return (
        f"it requires TLS ({version}), but Sluice connects to brokers in plain text: use a PLAINTEXT or "
        "SASL_PLAINTEXT listener of the brokers"
    )


async def _sasl(talk: _Talk) -> str:
    """Return in words why a broker answers ApiVersions but not Metadata."""
    mechanism = Struct(">h").pack(len(_MECHANISM)) + _MECHANISM
    answer = await talk.ask([_frame(ApiKey.SASL_HANDSHAKE, 1, mechanism)])
    try:
        names = _mechanisms(answer)
    except (WireError, error):
        return "it does not answer Metadata, so its brokers are not known"
    return (
        f"it requires SASL ({', '.join(names)}), which passes through Sluice from client to broker. It lists its "
        "brokers only for authenticated clients"
    )


def _mechanisms(frame: bytes) -> list[str]:
    code, count = Struct(">hi").unpack_from(frame, 8)
    if code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM) or not 0 < count <= 32:
        raise WireError(f"a SaslHandshake reply with error {code}")
    names, at = [], 14
    for _ in range(count):
        (length,) = Struct(">h").unpack_from(frame, at)
        names.append(frame[at + 2 : at + 2 + length].decode("ascii", "replace"))
        at += 2 + length
    return names


def _frame(api_key: int, api_version: int, body: bytes) -> bytes:
    head = _HEADER.pack(api_key, api_version, 0, -1)
    return _SIZE.pack(len(head) + len(body)) + head + body


def _is_whole(received: bytearray, frames: int) -> bool:
    at = 0
    for _ in range(frames):
        if len(received) < at + 4:
            return False
        (size,) = _SIZE.unpack_from(received, at)
        if not 0 <= size <= MAX_ANSWER_BYTES:
            return True  # not a frame: reading on is of no use
        at += 4 + size
    return len(received) >= at


def _is_versions(frame: bytes) -> bool:
    """Return whether this is a reply to ApiVersions v0: an error code, or ranges of versions."""
    if len(frame) < 14 or _SIZE.unpack_from(frame)[0] != len(frame) - 4:
        return False
    correlation_id, code, count = Struct(">ihi").unpack_from(frame, 4)
    is_refusal = code == ErrorCode.UNSUPPORTED_VERSION
    return bool(correlation_id == 0) and (
        is_refusal or (code == 0 and len(frame) == 14 + 6 * count)
    )


def _second(frames: bytes) -> bytes:
    (size,) = _SIZE.unpack_from(frames)
    return frames[4 + size :]
