"""The names of clients: the broker that one asks for by its TLS handshake, and the user that its certificate gives.

- One port may serve all brokers: the name that a client asks for (SNI) selects one. `sni_pattern` with a node's id in
  the place of $(node) is that node; the advertised host is the bootstrap. Upper and lower case are the same (RFC 6066).
- The user is that of the certificate's subject, or of its alternative names. A certificate that gives no user is
  refused, never ANONYMOUS: an authority that is trusted here may sign for others.
- Of alternative names those count that a rule matches. Two of them that give different users are refused: neither
  their order nor the client chooses. Their number and the length of each are bounded before a rule reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.shell.transport import HandshakeError
from proxy.tls.certificate import AlternativeName, alternative_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_NAMES: Final = 100
"""The most alternative names that the rules read."""
_MAX_SHOWN_CHARS: Final = 200
_NAMES: Final = {
    "uri_san": (AlternativeName.URI, "URI"),
    "dns_san": (AlternativeName.DNS, "DNS name"),
}


class ServerNames:
    """The names that clients may ask for. `hosts` is by node id."""

    __slots__ = ("_nodes",)

    def __init__(self, bootstrap_host: str, hosts: Mapping[int, str]) -> None:
        self._nodes: dict[str, int | None] = {_plain(host): node for node, host in hosts.items()}
        self._nodes[_plain(bootstrap_host)] = None

    def knows(self, name: str | None) -> bool:
        """Return whether clients may ask for this name."""
        return name is not None and _plain(name) in self._nodes

    def node_of(self, name: str) -> int | None:
        """Return the node of a name that is known; None is the bootstrap."""
        return self._nodes[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


class CertificatePrincipals:
    """Makes users from certificates. `kind`: subject, uri_san or dns_san.

    `user_of` returns the user of a text, None if no rule matches.
    """

    def __init__(self, kind: str, user_of: Callable[[str], str | None]) -> None:
        self._kind = kind
        self._user_of = user_of

    def user_of(self, certificate: bytes, subject: str) -> str:
        """Return the user of a certificate with this subject. Raises HandshakeError, CertificateError."""
        if self._kind == "subject":
            user = self._user_of(subject)
            if user is None:
                words = f"no principal mapping rule gives the subject {_shown(subject)} a user"
                raise HandshakeError(words)
            return user
        kind, word = _NAMES[self._kind]
        names = alternative_names(certificate, kind)
        who = f"the certificate of {_shown(subject)}"
        if not names:
            raise HandshakeError(f"{who} has no {word} as an alternative name")
        if len(names) > MAX_NAMES:
            raise HandshakeError(f"{who} has more than {MAX_NAMES} alternative names")
        users = {user for name in names if (user := self._user_of(name)) is not None}
        if len(users) == 1:
            return users.pop()
        shown = ", ".join(map(_shown, names))[:_MAX_SHOWN_CHARS]
        if users:
            raise HandshakeError(f"{who} gives {len(users)} users, expected one: {shown}")
        raise HandshakeError(f"no principal mapping rule gives {who} a user: {shown}")


def _shown(text: str) -> str:
    return repr(text[:_MAX_SHOWN_CHARS])
