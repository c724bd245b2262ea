"""Clients of a TLS listener, over real connections: each in a thread, its other side in Trio."""

import ssl

import trio

from proxy.shell.clock import Clock
from proxy.shell.transport import SecureClient
from proxy.tls.contexts import client_context, server_context
from proxy.tls.handshakes import Handshakes
from proxy.tls.listener import TlsListener
from proxy.tls.peer_names import CertificatePrincipals
from tests.support.shell.sockets import tcp_pair


def listener_of(
    authority,
    event_loop,
    *,
    auth="none",
    user_of=str,
    names=None,
    kind="subject",
    clock=Clock(),  # noqa: B008 - it does not change
    closes_expired=True,
) -> TlsListener:
    return TlsListener(
        context_of(authority, auth),
        Handshakes(event_loop),
        CertificatePrincipals(kind, user_of),
        clock,
        names,
        closes_expired=closes_expired,
    )


def context_of(authority, auth="required") -> ssl.SSLContext:
    own = authority.issue("*.kafka.test", "kafka.test")
    return server_context(str(own.cert_file), str(own.key_file), str(authority.ca_file), auth)


async def meet(
    listener: TlsListener, client: ssl.SSLContext, name: str | None = "kafka.test"
) -> tuple[SecureClient, ssl.SSLSocket]:
    """Connect a client in a thread; return both sides."""
    far, near = tcp_pair()
    near.setblocking(False)
    met: list[SecureClient] = []
    shaken: list[ssl.SSLSocket] = []

    def connect() -> None:
        try:
            shaken.append(client.wrap_socket(far, server_hostname=name))
            if not shaken[0].recv(1):  # a TLS 1.3 client learns only here that it was refused
                raise ConnectionResetError
        except OSError:
            far.close()
            for each in shaken:
                each.close()
            raise

    async with trio.open_nursery() as nursery:

        async def secure() -> None:
            met.append(await listener.secure(near, 9, ""))
            near_side = met[0].transport
            near_side.send(b"x")

        nursery.start_soon(secure)
        await trio.to_thread.run_sync(connect)
    return met[0], shaken[0]


def trusting(authority, certificate=None) -> ssl.SSLContext:
    files = () if certificate is None else (str(certificate.cert_file), str(certificate.key_file))
    return client_context(str(authority.ca_file), *files)
