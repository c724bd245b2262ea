"""The user of a client's certificate: of its subject, or of its alternative names.

- A certificate that gives no user is refused, never ANONYMOUS: an authority that is trusted here may sign for others.
- Of alternative names those count that a rule matches. Two of them that give different users are refused: neither
  their order nor the client chooses.
- The number of names and the length of each are bounded before a rule reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.openssl.certificate import AlternativeName, alternative_names
from proxy.shell.transport import HandshakeError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAMES: Final = 100
"""The most alternative names that the rules read."""
_MAX_SHOWN_CHARS: Final = 200
_NAMES: Final = {
    "uri_san": (AlternativeName.URI, "URI"),
    "dns_san": (AlternativeName.DNS, "DNS name"),
}


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
