"""The reply that policies see: the broker's, or one made here; a frame of which `end - pos` bytes have arrived.

Rules:
- Body and errors are made when a policy asks for them. The errors are read from the frame itself, without a copy.
- A body that a policy puts in its place makes a new frame, `changed`; the old one is not written to.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from policies.verdicts import VerdictError
from wire import header, throttle
from wire.errors import WireError
from wire.primitives import INT32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.hooks import ChainResponse
    from wire.apis import Api
    from wire.reply_errors import ReplyErrors

_SIZE = Struct(">i").pack


class Reply:
    """One reply. `name_of`: topic names by id, if a policy hears the body; else None."""

    __slots__ = (
        "_api",
        "_body",
        "_buf",
        "_end",
        "_errors",
        "_name_of",
        "_pos",
        "changed",
        "size_bytes",
    )

    def __init__(
        self,
        api: Api,
        size_bytes: int,
        buf: bytearray,
        pos: int,
        end: int,
        name_of: Mapping[bytes, str] | None = None,
    ) -> None:
        self.size_bytes = size_bytes
        self.changed: bytearray | None = None
        """The frame with another body."""
        self._api = api
        self._buf = buf
        self._pos = pos
        self._end = end
        self._name_of = name_of
        self._body: bytes | None = None
        self._errors: ReplyErrors | None = None

    @property
    def throttle_time_ms(self) -> int:
        """Return the throttle time of the reply in ms (KIP-219); 0 if it has no such field, or it cannot be found."""
        try:
            at = throttle.throttle_at(self._buf, self._pos, self._end, self._api)
        except WireError:
            return 0
        return 0 if at is None else int(INT32.unpack_from(self._buf, at)[0])

    @property
    def body(self) -> bytes | None:
        """Return the whole body, if a policy hears it and it is here; else None."""
        body = self._body
        if body is None and self.is_heard:
            body = self._body = bytes(memoryview(self._buf)[self._body_at() : self._end])
        return body

    @property
    def errors(self) -> ReplyErrors | None:
        """Return the error codes in the body; None if there is no body."""
        errors = self._errors
        if errors is None and self.is_heard and self._name_of is not None:
            from wire.reply_errors import (  # noqa: PLC0415 - only a policy that hears bodies takes its memory
                ReplyErrors,
            )

            errors = self._errors = ReplyErrors(
                self._api, self._buf, self._body_at(), self._end, self._name_of
            )
        return errors

    @property
    def is_heard(self) -> bool:
        """Return whether a policy hears the body, and all of it is here."""
        return self._name_of is not None and self._end - self._pos == 4 + self.size_bytes

    def replace(self, body: bytes) -> None:
        """Use this body from now on. Raises VerdictError, and changes nothing, if the throttle time cannot be found."""
        if not self.is_heard:
            raise VerdictError(f"the {self._api.name} reply is too large to be kept for a Replace")
        head = bytes(memoryview(self._buf)[self._pos + 4 : self._body_at()])
        size_bytes = len(head) + len(body)
        frame = bytearray().join((_SIZE(size_bytes), head, body))
        try:
            throttle.throttle_at(frame, 0, len(frame), self._api)
        except WireError as error:
            words = f"Replace.body is no {self._api.name} response v{self._api.version}: {error}"
            raise VerdictError(words) from error
        self.end_hook()
        self.changed = self._buf = frame
        self._pos, self._end = 0, len(frame)
        self.size_bytes = size_bytes

    def end_hook(self) -> None:
        """Forget what was made for the hook that has returned: the frame's bytes may change, or become others."""
        if self._errors is not None:
            self._errors.close()
        self._errors = self._body = None

    def release(self) -> None:
        """End what `end_hook` ends, and release the frame."""
        self.end_hook()
        self._name_of = None
        self._buf = bytearray()
        self._pos = self._end = 0

    def _body_at(self) -> int:
        at = header.response_body_at(
            self._buf, self._pos, self._end, self._api.response_header_version
        )
        return self._end if at is None else at


if TYPE_CHECKING:

    def _(reply: Reply) -> ChainResponse:
        return reply
