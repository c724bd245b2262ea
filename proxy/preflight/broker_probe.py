"""Finds out how a bootstrap server is reached, for `sluice check --connect`.

Rules:
- It asks as Sluice does, by the TLS and the credentials of the settings: ApiVersions, then Metadata. An answer shows
  that the server is a Kafka broker.
- If the server gives another answer, further connections try TLS, HTTP and SASL.
- Where the settings have no TLS, certificates are not verified: then only the protocol matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct, error
from typing import TYPE_CHECKING

import trio

from proxy.core.errors import CloseReason, SessionFault
from proxy.preflight.broker_talk import BrokerTalk
from proxy.shell.dial import DialError
from wire import metadata, sasl
from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.config import Config
    from proxy.config.upstream import UpstreamSettings
    from proxy.preflight.broker_talk import CertificateReport

_HEADER = Struct(">hhih")  # api_key, api_version, correlation_id, no client id
_SIZE = Struct(">i")
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
_MECHANISM = "PLAIN"
_CLOSES = "it speaks TLS, and closes without an answer: it may demand a client certificate (upstream.tls.cert_file)"
_PLAIN = "it speaks Kafka without TLS, but upstream.tls is set"


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """The findings about one server. `problem`: why Sluice cannot use it, or empty; `note`: a remark."""

    server: str
    problem: str = ""
    note: str = ""
    brokers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Node id to address, as the broker reports them; empty if it does not."""
    tls: str = ""
    """Version and cipher; empty without TLS."""
    certificate: CertificateReport | None = None
    user: str = ""
    """By whom the broker has let Sluice in: the user and the mechanism; empty without Sluice's own credentials."""


def probe_brokers(config: Config) -> list[BrokerReport]:
    """Return what answers at each bootstrap server of the configuration. Raises OSError and FileError for its files."""
    upstream = config.upstream

    async def probe_each() -> list[BrokerReport]:
        return [await probe(*address, upstream) for address in upstream.addresses()]

    return trio.run(probe_each)


async def probe(host: str, port: int, upstream: UpstreamSettings) -> BrokerReport:
    """Return what the server at this address speaks. It makes five connections at most (see BrokerTalk).

    Raises OSError and FileError for files of the settings.
    """
    talk = BrokerTalk(host, port, upstream)
    try:
        return await _probe(talk)
    except DialError as failed:
        why = failed.detail.removeprefix(talk.server).lstrip(": ")
        if failed.reason is CloseReason.BROKER_TLS and _is_versions(
            await _versions(talk.without_tls())
        ):
            why = _PLAIN
        elif failed.reason is CloseReason.BROKER_TLS:
            why = f"TLS fails: {why}"
    except SessionFault as refused:
        why = f"it does not let Sluice in: {refused}"
    return _report_of(talk, problem=why)


async def _probe(talk: BrokerTalk) -> BrokerReport:
    versions = await _versions(talk)
    if talk.tls and not versions:  # it may have reset, so that no alert came through
        return _report_of(talk, problem=_CLOSES)
    if not _is_versions(versions):
        return _report_of(talk, problem=await _other_protocol(talk.without_tls(), versions))
    answers = await talk.ask(
        [_frame(ApiKey.API_VERSIONS, 0, b""), metadata.brokers_request()], 2, logs_in=True
    )
    try:
        brokers = metadata.read_brokers(_second(answers))
    except (WireError, error):
        return _report_of(talk, note=await _sasl(talk))
    named = {node: (name.decode(errors="replace"), at) for node, (name, at) in brokers.items()}
    return _report_of(talk, brokers=named)


def _report_of(
    talk: BrokerTalk,
    problem: str = "",
    note: str = "",
    brokers: Mapping[int, tuple[str, int]] | None = None,
) -> BrokerReport:
    """Return a report with these findings and those of the connections."""
    return BrokerReport(
        talk.server, problem, note, brokers or {}, talk.tls, talk.certificate, talk.user
    )


async def _versions(talk: BrokerTalk) -> bytes:
    """Return the answer to ApiVersions, which needs no authentication. Raises DialError."""
    return await talk.ask([_frame(ApiKey.API_VERSIONS, 0, b"")])


async def _other_protocol(talk: BrokerTalk, answer: bytes) -> str:
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
    return f"it requires TLS ({version}): set upstream.tls; `tls: {{}}` trusts the system's authorities"


async def _sasl(talk: BrokerTalk) -> str:
    """Return in words why a broker answers ApiVersions but not Metadata."""
    answer = await talk.ask([sasl.handshake_request(_MECHANISM, 0)])
    try:
        code, names = sasl.handshake_reply(answer[8:])
    except WireError:
        code, names = ErrorCode.NONE, ()
    if not names or code not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM):
        return "it does not answer Metadata, so its brokers are not known"
    return (
        f"it requires SASL ({', '.join(names)}), which passes through Sluice from client to broker. It lists its "
        "brokers only for authenticated clients"
    )


def _frame(api_key: int, api_version: int, body: bytes) -> bytes:
    head = _HEADER.pack(api_key, api_version, 0, -1)
    return _SIZE.pack(len(head) + len(body)) + head + body


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
