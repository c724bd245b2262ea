"""The token that callers of `admin.control` must present: the content of a file, read again when the file is another.

A file that has gone or become unusable changes nothing: the last good token holds.
"""

from __future__ import annotations

import errno
import hmac
from contextlib import suppress
from pathlib import Path

MIN_TOKEN_CHARS = 16
MAX_TOKEN_BYTES = 4096


class Token:
    """Raises OSError, in words, when the file cannot be used at the start."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._stamp = (0, 0, 0)
        self._token = b""
        self._look()

    def fits(self, authorization: str) -> bool:
        """Whether this header presents it. Takes as long for any wrong token."""
        with suppress(OSError):
            self._look()
        scheme, _, token = authorization.partition(" ")
        is_bearer = scheme.lower() == "bearer"  # RFC 9110: in any case of letters
        fits = hmac.compare_digest(token.strip(" ").encode("latin-1", "replace"), self._token)
        return is_bearer and fits

    def _look(self) -> None:
        stat = self._file.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if stamp == self._stamp:
            return
        with self._file.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
        if len(token) < MIN_TOKEN_CHARS or not _is_one_word(token):
            words = f"admin.token_file must hold one word of at least {MIN_TOKEN_CHARS} characters"
            raise OSError(errno.EINVAL, words)
        self._token, self._stamp = token, stamp


def _is_one_word(token: bytes) -> bool:
    """Whether a header can carry it: visible ASCII."""
    return all(0x20 < each < 0x7F for each in token)
