"""One blocking connection that speaks the Kafka protocol, for commands.

- It connects to the given address only, never to an advertised one, so it works through a forwarded port.
- kafka-python encodes and decodes (`KafkaProtocol`, its SASL mechanisms). Its network client is not used, because it
  dials the advertised addresses.
- Every failure is an UnreachableError.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from proxy.admin.errors import UnreachableError
from proxy.config.values import split_server
from proxy.tls.contexts import CertificateFileError, client_context, words_of
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from types import TracebackType

    from proxy.config.security import UpstreamTls

CLIENT_ID: Final = "sluice-quotas"
TIMEOUT_S: Final = 30.0
_CHUNK_BYTES: Final = 65536
_LEAST_S: Final = 0.001

Response: TypeAlias = Any
"""A response of kafka-python, which has no types."""


@dataclass(frozen=True, slots=True)
class Login:
    """The credentials of the client."""

    user: str
    password: str = field(repr=False)
    mechanism: str


class Connection:
    """A connected and, with a `login`, authenticated client. A context manager."""

    def __init__(
        self,
        server: str,
        login: Login | None,
        tls: UpstreamTls | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        from kafka.protocol.parser import KafkaProtocol  # type: ignore[import-untyped] # noqa: PLC0415 - half a second

        logging.getLogger("kafka").addHandler(logging.NullHandler())  # the user gets sentences
        self._server = server
        self._timeout_s = timeout_s
        self._protocol = KafkaProtocol(client_id=CLIENT_ID)
        try:
            self._socket = socket.create_connection(split_server(server), timeout_s)
        except OSError as error:
            raise UnreachableError(f"Nothing answers at {server}: {_words(error)}.") from error
        if tls is not None:
            self._socket = secured(self._socket, server, tls)
        if login is not None:
            try:
                self._log_in(login)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, request: object) -> Response:
        """Send one of kafka-python's requests and return its response, within the timeout. Raises UnreachableError."""
        self._protocol.send_request(request)
        until = time.monotonic() + self._timeout_s
        try:
            self._socket.sendall(self._protocol.send_bytes())
            while True:
                # A server may send a little now and then.
                self._socket.settimeout(max(until - time.monotonic(), _LEAST_S))
                data = self._socket.recv(_CHUNK_BYTES)
                if not data:
                    words = "closed the connection. It may require --tls or --login, or not speak the Kafka protocol"
                    raise UnreachableError(f"{self._server} {words}.")
                for _, response in self._read(data):
                    return response
        except OSError as error:
            raise UnreachableError(f"{self._server} does not answer: {_words(error)}.") from error

    def _read(self, data: bytes) -> list[tuple[int, object]]:
        """Return the responses that are complete now, with their correlation ids."""
        try:
            responses: list[tuple[int, object]] = self._protocol.receive_bytes(data)
        except Exception as error:
            raise UnreachableError(
                f"{self._server} does not speak the Kafka protocol: {error}"
            ) from error
        return responses

    def _log_in(self, login: Login) -> None:
        from kafka.net.sasl import get_sasl_mechanism  # type: ignore[import-untyped] # noqa: PLC0415 - half a second
        from kafka.protocol.sasl import (  # type: ignore[import-untyped] # noqa: PLC0415 - half a second
            SaslAuthenticateRequest,
            SaslHandshakeRequest,
        )

        name = login.mechanism
        offered = self.ask(SaslHandshakeRequest(version=1, mechanism=name))
        if offered.error_code:
            words = (
                f"it offers {', '.join(offered.mechanisms)}"
                if offered.mechanisms
                else "it has no SASL"
            )
            raise UnreachableError(f"{self._server} does not offer {name}: {words}.")
        mechanism = get_sasl_mechanism(name)(
            sasl_mechanism=name,
            sasl_plain_username=scram_name(login),
            sasl_plain_password=login.password,
        )
        while not mechanism.is_done():
            token = SaslAuthenticateRequest(version=0, auth_bytes=mechanism.auth_bytes())
            answer = self.ask(token)
            if answer.error_code:
                words = answer.error_message or error_name(answer.error_code)
                raise UnreachableError(f"{login.user} could not log in: {words}")
            try:
                mechanism.receive(answer.auth_bytes)
            except (ValueError, KeyError) as error:
                words = f"{self._server} failed to authenticate itself: {error}"
                raise UnreachableError(words) from error


def secured(connected: socket.socket, server: str, tls: UpstreamTls) -> ssl.SSLSocket:
    """Return the connection after a TLS handshake. Raises UnreachableError, also for files that cannot be used."""
    try:
        context = context_of(tls)
    except UnreachableError:
        connected.close()
        raise
    try:
        return context.wrap_socket(
            connected, server_hostname=tls.server_name or split_server(server)[0]
        )
    except OSError as error:
        connected.close()
        why = words_of(error) if isinstance(error, ssl.SSLError) else _words(error)
        raise UnreachableError(f"No TLS connection to {server}: {why}.") from error


def context_of(tls: UpstreamTls) -> ssl.SSLContext:
    """Return the context of a client. Raises UnreachableError for files that cannot be used."""
    try:
        return client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=tls.verify)
    except CertificateFileError as error:
        raise UnreachableError(f"TLS is not possible: {error}.") from error


def scram_name(login: Login) -> str:
    """Return the user as kafka-python takes it: SCRAM encodes two characters (RFC 5802), which it leaves to callers."""
    if login.mechanism == "PLAIN":
        return login.user
    return login.user.replace("=", "=3D").replace(",", "=2C")


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or `error code N`."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)
