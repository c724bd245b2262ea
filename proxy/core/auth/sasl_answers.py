"""What an `Authentication` says to a SASL request: an answer, or what is to be verified before there is one."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy.core.auth.stored_users import Credential


class Step(Enum):
    """The meaning of a reply for the connection."""

    CONTINUES = "continues"
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    """A token is refused; the exchange has failed once the client has dismissed that."""
    FAILED = "failed"
    """The reply is sent after FAILURE_DELAY_MS, then the connection is closed."""


class Answer(NamedTuple):
    """The body of a reply. `why` describes a failure to the operator, without a secret."""

    body: bytes
    outcome: Step = Step.CONTINUES
    why: str = ""


class UncheckedPassword(NamedTuple):
    """A password that is to be verified (`Passwords.try_check`). Then `Authentication.on_checked` is called."""

    user: str
    password: bytes
    credential: Credential
    exists: bool
    version: int

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"UncheckedPassword({self.user!r})"


class UncheckedToken(NamedTuple):
    """A token that is to be checked (`BearerTokens.begin_check`). Then `Authentication.on_token_checked` is called."""

    token: bytes
    authzid: str
    version: int

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"UncheckedToken({self.authzid!r})"
