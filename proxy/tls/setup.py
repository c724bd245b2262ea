"""TLS as the configuration wants it: built from its files at the start, and again when the files change.

Rules:
- The files are read every POLL_S seconds, and at each reload. Their contents count, not their times: Kubernetes swaps
  links, and a copy of the same bytes changes nothing.
- A file that cannot be used changes nothing: the old certificates stay, and the log says why. It is tried again when a
  file changes.
- Open connections keep the certificates of their handshake.
- A Sluice without TLS has neither the code nor OpenSSL in memory: they are imported when they are needed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
import trio

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from proxy.config.sections import ListenSettings
    from proxy.config.upstream import UpstreamSettings
    from proxy.core.memory.unauthenticated import UnauthenticatedBytes
    from proxy.shell.event_loop import EventLoop
    from proxy.tls.connector import TlsConnector
    from proxy.tls.listener import TlsListener

POLL_S: Final = 5.0


class _Loaded(NamedTuple):
    """The contexts of the files as they are now. `expires_ms`: see `Tls`."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None
    expires_ms: dict[str, int]


class Tls:
    """The TLS of both sides; each is None if it is off. Raises CertificateFileError.

    `expires_ms` tells when our own certificates end, in ms since the epoch, by side: `listen`, `upstream`.
    """

    def __init__(
        self,
        listen: ListenSettings,
        upstream: UpstreamSettings,
        event_loop: EventLoop,
        memory: UnauthenticatedBytes,
        now_ms: Callable[[], int],
    ) -> None:
        self._server, self._client = listen.tls, upstream.tls
        self.expires_ms: dict[str, int] = {}
        self.listener: TlsListener | None = None
        self.connector: TlsConnector | None = None
        self._seen = self._fingerprint()
        self._refused = ""  # why the files of `_seen` cannot be used
        self._log = structlog.get_logger()
        if not self._is_on:
            return
        from proxy.core.auth.principal_mapping import PrincipalMapper  # noqa: PLC0415 - see above
        from proxy.tls.connector import TlsConnector  # noqa: PLC0415 - see above
        from proxy.tls.handshakes import Handshakes  # noqa: PLC0415 - see above
        from proxy.tls.listener import TlsListener  # noqa: PLC0415 - see above
        from proxy.tls.peer_names import (  # noqa: PLC0415 - see above
            CertificatePrincipals,
            ServerNames,
        )

        loaded = self._load()
        self.expires_ms = loaded.expires_ms
        handshakes = Handshakes(event_loop, memory)
        if self._server is not None and loaded.server is not None:
            hosts = {node: host for node, (host, _) in listen.node_addresses().items()}
            self.listener = TlsListener(
                loaded.server,
                handshakes,
                CertificatePrincipals(
                    self._server.principal.kind,
                    PrincipalMapper(self._server.principal.rules).user_of,
                ),
                now_ms,
                ServerNames(listen.advertised_host, hosts) if listen.serves_by_sni else None,
                closes_expired=self._server.close_on_expiry,
            )
        if self._client is not None and loaded.client is not None:
            self.connector = TlsConnector(
                loaded.client, handshakes, now_ms, self._client.server_name
            )

    @property
    def _is_on(self) -> bool:
        return self._server is not None or self._client is not None

    async def watch(self) -> None:
        """Load changed files, until cancelled."""
        while self._is_on:
            await trio.sleep(POLL_S)
            await self.load_changed()

    async def load_changed(self) -> str:
        """Load the files if one has changed since the last call; return why they cannot be used, "" if they can."""
        if not self._is_on:
            return ""
        from proxy.tls.contexts import CertificateFileError  # noqa: PLC0415 - see above

        seen = await trio.to_thread.run_sync(self._fingerprint)
        if seen == self._seen:
            return self._refused
        self._seen, self._refused = seen, ""
        try:
            loaded = await trio.to_thread.run_sync(self._load)
        except CertificateFileError as error:
            self._log.warning("certificates_refused", reason=str(error), effect="the old ones stay")
            self._refused = str(error)
            return self._refused
        self.expires_ms = loaded.expires_ms
        if self.listener is not None and loaded.server is not None:
            self.listener.use(loaded.server)
        if self.connector is not None and loaded.client is not None:
            self.connector.use(loaded.client)
        self._log.info("certificates_loaded", **_dates(loaded.expires_ms))
        return ""

    def _load(self) -> _Loaded:
        """Read the files. Raises CertificateFileError."""
        from proxy.tls.contexts import (  # noqa: PLC0415 - see above
            client_context,
            expiry_of,
            server_context,
        )

        server = client = None
        expires_ms = {}
        if (files := self._server) is not None:
            server = server_context(
                files.cert_file, files.key_file, files.client_ca_file, files.client_auth
            )
            expires_ms["listen"] = expiry_of(files.cert_file)
        if (ours := self._client) is not None:
            client = client_context(ours.ca_file, ours.cert_file, ours.key_file, verify=ours.verify)
            if ours.cert_file:
                expires_ms["upstream"] = expiry_of(ours.cert_file)
        return _Loaded(server, client, expires_ms)

    def _fingerprint(self) -> tuple[bytes, ...]:
        """Return a hash of each file's content; b"" for one that cannot be read."""
        paths: list[str] = []
        if (files := self._server) is not None:
            paths += (files.cert_file, files.key_file, files.client_ca_file)
        if (ours := self._client) is not None:
            paths += (ours.ca_file, ours.cert_file, ours.key_file)
        return tuple(map(_hash_of, paths))


def _hash_of(path: str) -> bytes:
    try:
        return blake2b(Path(path).read_bytes()).digest()
    except OSError:
        return b""


def _dates(expires_ms: dict[str, int]) -> dict[str, str]:
    return {
        f"{side}_expires": datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
        for side, at_ms in expires_ms.items()
    }
