"""Passwords, tokens and client secrets: read from a file or an environment variable, and never shown.

- No setting has a secret as its value: it names the file, or a variable has it.
- An error names the file or the variable, never a part of the content.
- Kubernetes replaces the file of a secret when it changes: a caller that reads it again gets the new content.
"""

from __future__ import annotations

import hmac
import os
import resource
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSWORD_VARIABLE: Final = "SLUICE_UPSTREAM_SASL_PASSWORD"  # noqa: S105 - the name of a variable
CLIENT_SECRET_VARIABLE: Final = "SLUICE_UPSTREAM_SASL_CLIENT_SECRET"  # noqa: S105 - as above
MAX_SECRET_BYTES: Final = 64 << 10
_EXPECTED: Final = f"one line of text (UTF-8), 1..{MAX_SECRET_BYTES} bytes"


class Secret:
    """A text that shows itself nowhere: not when printed, formatted or logged, and it cannot be pickled or copied."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text. Pass it on at once; do not keep it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(...)"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    __hash__ = None  # type: ignore[assignment] # a hash would tell two texts apart

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


class SecretError(ValueError):
    """A secret that cannot be used. `found` names its file or variable; `expected` is what is needed instead."""

    def __init__(self, found: str, expected: str = _EXPECTED) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected


def read_secret(file: str, variable: str = "", environ: Mapping[str, str] = os.environ) -> Secret:
    """Return the secret in `file`, or in the environment variable if no file is named.

    One line break at its end is ignored. Raises SecretError if there is none, and if it is empty, has several lines or
    exceeds MAX_SECRET_BYTES.
    """
    if file:
        where, content = repr(file), _content(file)
    elif environ.get(variable):
        where, content = variable, os.fsencode(environ[variable])
    else:
        expected = f"a file, or the variable {variable}" if variable else "a file"
        raise SecretError("nothing", expected)
    if len(content) > MAX_SECRET_BYTES:
        raise SecretError(f"{where}, which has more than {MAX_SECRET_BYTES} bytes")
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise SecretError(f"{where}, which is empty")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise SecretError(f"{where}, which is not UTF-8 at byte {error.start}") from None
    if any(each in text for each in "\n\r\0"):
        raise SecretError(f"{where}, which has several lines or a NUL character")
    return Secret(text)


def is_open_to_others(file: str) -> bool:
    """Return whether users other than the file's owner and group may read it."""
    try:
        return bool(os.stat(file).st_mode & stat.S_IROTH)  # noqa: PTH116 - one call, and the path is a text
    except (OSError, ValueError):
        return False


def forbid_core_dumps() -> None:
    """Keep secrets out of core dumps, for the rest of this process.

    A limit of 1 byte, not 0: Linux writes no core file for either, but still starts a program of
    `kernel.core_pattern` with 0 (fs/coredump.c).
    """
    with suppress(OSError, ValueError):  # a lower hard limit is in force
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


def _content(file: str) -> bytes:
    """Return the content of a regular file, or MAX_SECRET_BYTES + 1 bytes of it. Raises SecretError."""
    try:
        descriptor = os.open(
            file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )  # a FIFO must not block
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SecretError(f"{file!r}, which is not a regular file")
            return opened.read(MAX_SECRET_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, SecretError):
            raise
        raise SecretError(f"{file!r}: {getattr(error, 'strerror', None) or error}") from None
