"""TLS and SASL of the publisher: the settings of `upstream` in the words of kafka-python.

It authenticates by Sluice's own credentials (`upstream.sasl`). Without them, brokers that demand SASL refuse it.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from proxy.config.small_files import PASSWORD_VARIABLE, read_secret
from proxy.tls.contexts import client_context

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.config.security import UpstreamSasl, UpstreamTls
    from proxy.config.upstream import UpstreamSettings


class _TokenProvider(NamedTuple):
    """kafka-python's AbstractTokenProvider."""

    token: Callable[[], str]

    def extensions(self) -> dict[str, str]:
        """Return no extensions (KIP-342)."""
        return {}


class _NamedContext(ssl.SSLContext):
    """A context that verifies one name, whichever host is dialled."""

    name: str | None = None

    def wrap_socket(  # type: ignore[override] # with the arguments in use
        self,
        sock: socket.socket,
        *,
        server_hostname: str | None,
        do_handshake_on_connect: bool = True,
    ) -> ssl.SSLSocket:
        """See SSLContext."""
        return super().wrap_socket(
            sock,
            server_hostname=self.name or server_hostname,
            do_handshake_on_connect=do_handshake_on_connect,
        )


def security_settings(upstream: UpstreamSettings, token: Callable[[], str]) -> dict[str, object]:
    """Return the settings of a kafka-python client. `token` returns a token of OAUTHBEARER; it may block.

    The files are read now. Raises OSError, and FileError for a password that cannot be read.
    """
    tls, sasl = upstream.tls, upstream.sasl
    protocol = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
    found: dict[str, object] = {"security_protocol": protocol}
    if tls is not None:
        found["ssl_context"] = _context(tls)
    if sasl is not None:
        found |= _sasl(sasl, token)
    return found


def _context(tls: UpstreamTls) -> ssl.SSLContext:
    class Named(_NamedContext):
        name = tls.server_name

    return client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=tls.verify, kind=Named)


def _sasl(sasl: UpstreamSasl, token: Callable[[], str]) -> dict[str, object]:
    if sasl.mechanism == "OAUTHBEARER":
        from kafka.net.sasl.oauth import AbstractTokenProvider  # type: ignore[import-untyped] # noqa: PLC0415 - it takes half a second to import

        AbstractTokenProvider.register(_TokenProvider)
        return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _TokenProvider(token)}
    name = sasl.username
    if sasl.mechanism != "PLAIN":  # RFC 5802, which kafka-python leaves to the caller
        name = name.replace("=", "=3D").replace(",", "=2C")
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": read_secret(sasl.password_file, PASSWORD_VARIABLE).reveal(),
    }
