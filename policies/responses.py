"""Replies as policies see them: Response, the verdict Replace, and the Result that `on_complete` gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from wire.reply_errors import ReplyErrors

MAX_REPLACED_BYTES: Final = 128 << 20
"""The largest body of a Replace."""


class Response(Protocol):
    """The reply, just before it is sent to the client. It is valid until `on_response` returns."""

    @property
    def size_bytes(self) -> int:
        """Header and body in bytes, without the four bytes of length."""

    @property
    def throttle_time_ms(self) -> int:
        """The broker's throttle in ms; 0 if the response has no such field, or if the field has not arrived yet."""

    @property
    def body(self) -> bytes | None:
        """The whole body, without the reply's header, with `hears_body`; else None.

        Broker addresses and API ranges are already Sluice's. It is None too for a reply that is too large to be kept.
        """

    @property
    def errors(self) -> ReplyErrors | None:
        """The error codes of the reply by what has failed, read when they are first used; None whenever `body` is."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Send this body instead of the reply's. The entries above see it as the reply.

    Only `on_response` may return it, alone or in a Throttle, for an API in `hears_body`. The core adds header, length
    and throttle time. The body has the format of the request's version, and at most 128 MiB.
    """

    body: bytes


class PolicyRefusal(NamedTuple):
    """A refusal of the request, or of a part of it, by a policy."""

    policy: str
    """The entry's name."""
    code: int
    """Kafka's error code."""
    message: str
    """The policy's reason; empty if it gives none."""


class Result:
    """How a request was answered: the errors in its reply, and the policies that refused it or a part of it."""

    __slots__ = ("refusals", "response")

    def __init__(
        self, response: Response | None = None, refusals: tuple[PolicyRefusal, ...] = ()
    ) -> None:
        self.response = response
        self.refusals = refusals

    @property
    def errors(self) -> ReplyErrors | None:
        """The error codes of the reply that the client got, until `on_complete` returns.

        None if they are not known: there was no reply, the API is not in `hears_body`, or the reply was too large.
        """
        return None if self.response is None else self.response.errors

    @property
    def refused_by(self) -> str:
        """The name of the first entry that refused the request, or a part of it; empty if none did."""
        return self.refusals[0].policy if self.refusals else ""


UNKNOWN: Final = Result()
"""The result of a request whose reply no policy hears, and that none has refused."""
