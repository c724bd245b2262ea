"""The refusal that a handler of the admin server raises: an HTTP status and its message."""

from __future__ import annotations


class AdminError(Exception):
    """The request is refused. The client gets the message as the `error` of the answer, under `status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
