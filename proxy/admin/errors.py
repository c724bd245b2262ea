"""The refusals of an admin server, as its handlers raise them and as its clients see them.

The commands that ask over Kafka raise the clients' two errors, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_PATH = "there is no such path"
"""The error of a listener without control: with control every path that a command asks for exists."""


class AdminError(Exception):
    """The request is refused. The client gets the message as the `error` of the answer, under `status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(Exception):
    """There was no answer, or none of the expected protocol. The message names the address and the reason."""


class RefusedError(Exception):
    """The server answered and refused. `code` is Kafka's error code, or the HTTP status.

    `problems` lists what is wrong, one by one; that of a setting begins with its key path.
    """

    def __init__(self, code: int, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = tuple(problems)
