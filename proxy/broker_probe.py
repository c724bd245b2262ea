"""What stands at a bootstrap address: asked once, for `sluice check --connect`.

Rules:
- It speaks as a client would: ApiVersions, then Metadata. An answer says that it is a Kafka broker.
- A server that does not answer so is asked on further connections what else it is: TLS, HTTP, or a broker that wants
  SASL first. Each connection has one deadline for all that is said on it.
- Nothing is learnt from it, and no certificate is judged: who it is does not matter here, only what it speaks.
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

MAX_ANSWER_BYTES = 4 << 20
MIN_TIMEOUT_S = 1.0
_HEADER = Struct(">hhih")  # api_key, api_version, correlation_id, no client id
_SIZE = Struct(">i")
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
_MECHANISM = b"PLAIN"


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """`problem`: why Sluice cannot use it; empty where it can. `note`: what else is worth knowing."""

    server: str
    problem: str = ""
    note: str = ""
    brokers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Node id to address, as the broker says; empty where it does not say."""


async def probe(host: str, port: int, timeout_s: float) -> BrokerReport:
    """Ask the server at this address. It takes no longer than four timeouts."""
    server = f"{host}:{port}"
    talk = _Talk(host, port, max(timeout_s, MIN_TIMEOUT_S))
    try:
        versions = await talk.ask([_frame(ApiKey.API_VERSIONS, 0, b"")])
    except DialError as failed:
        return BrokerReport(server, failed.detail.removeprefix(server).lstrip(": "))
    if not _is_versions(versions):
        return BrokerReport(server, await _other(talk, versions))
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
        """Send all, and return what comes: so many frames, or what came until the end or the deadline.

        Raises DialError when nothing listens there.
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
        """The TLS version that it speaks; empty: none."""
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
                # An alert is an answer in TLS; bytes that are none are not.
                cause = broken.__cause__
                is_alert = isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or "")
                return "TLS" if is_alert else ""
            finally:
                await trio.aclose_forcefully(plain)
        return ""


async def _other(talk: _Talk, answer: bytes) -> str:
    """What it is, if it is no broker that can be asked."""
    if answer.startswith(b"HTTP/"):
        return "it speaks HTTP, not the Kafka protocol"
    if answer[:1] == bytes([_TLS_ALERT]) or answer[:1] == bytes([_TLS_HANDSHAKE]):
        return _wants_tls("TLS")
    version = await talk.speaks_tls()
    if version:
        return _wants_tls(version)
    spoken = await talk.ask([b"GET / HTTP/1.0\r\n\r\n"])
    if spoken.startswith(b"HTTP/"):
        return "it speaks HTTP, not the Kafka protocol"
    if answer:
        return f"it answers something else than the Kafka protocol: {answer[:16]!r}"
    return "it accepts connections, but does not answer ApiVersions"


def _wants_tls(version: str) -> str:
    return (
        f"it wants TLS ({version}): Sluice speaks to brokers in plain text, so use a listener of the "
        "brokers for PLAINTEXT or SASL_PLAINTEXT"
    )


async def _sasl(talk: _Talk) -> str:
    """What a broker that answers ApiVersions and not Metadata is waiting for."""
    mechanism = Struct(">h").pack(len(_MECHANISM)) + _MECHANISM
    answer = await talk.ask([_frame(ApiKey.SASL_HANDSHAKE, 1, mechanism)])
    try:
        names = _mechanisms(answer)
    except (WireError, error):
        return "it does not answer Metadata, so its brokers are not known"
    return (
        f"its clients authenticate by SASL ({', '.join(names)}); theirs passes through Sluice. Its brokers "
        "are told only to clients that have authenticated"
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
            return True  # no frame: more of it says nothing more
        at += 4 + size
    return len(received) >= at


def _is_versions(frame: bytes) -> bool:
    """Whether this is a reply to ApiVersions v0: an error code, or ranges of versions."""
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
