"""The token that callers of `admin.control` must present: the content of a file, which is read again when it changes.

If the file is removed or becomes invalid, the last valid token stays in force.
"""

from __future__ import annotations

import errno
import hmac
from contextlib import suppress
from pathlib import Path

MIN_TOKEN_CHARS = 16
MAX_TOKEN_BYTES = 4096


class Token:
    """The token of a file. Raises OSError if the file is invalid at the start."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)
        self._stamp = (0, 0, 0)
        self._token = b""
        self._reread()

    def fits(self, authorization: str) -> bool:
        """Return whether this Authorization header has the token, in the same time for any wrong one."""
        with suppress(OSError):
            self._reread()
        scheme, _, token = authorization.partition(" ")
        is_bearer = scheme.lower() == "bearer"  # RFC 9110: in any case of letters
        fits = hmac.compare_digest(token.strip(" ").encode("latin-1", "replace"), self._token)
        return is_bearer and fits

    def _reread(self) -> None:
        stat = self._file.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if stamp == self._stamp:
            return
        with self._file.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES).strip()
        if len(token) < MIN_TOKEN_CHARS or not _is_one_word(token):
            words = f"admin.token_file: expected one word of {MIN_TOKEN_CHARS} characters or more"
            raise OSError(errno.EINVAL, words)
        self._token, self._stamp = token, stamp


def _is_one_word(token: bytes) -> bool:
    """Return whether a header can carry the token: visible ASCII."""
    return all(0x20 < each < 0x7F for each in token)
