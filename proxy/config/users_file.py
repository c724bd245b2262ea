"""The users file of `listen.sasl`: read whole, of bounded size, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.config.small_files import FileError, read_small_file
from proxy.core.auth.users_text import UsersFileError, read_users

if TYPE_CHECKING:
    from proxy.core.auth.stored_users import Users

MAX_BYTES: Final = 64 << 20
EXPECTED: Final = "a users file, as `sluice users add` writes it"


def load_users(path: str) -> Users:
    """Return the users of the file. Raises FileError."""
    return users_of(path, load_text(path))


def load_text(path: str) -> str:
    """Return the text of the file. Raises FileError."""
    try:
        return read_small_file(path, MAX_BYTES, EXPECTED).decode()
    except UnicodeDecodeError:
        raise FileError(f"{path!r}, which is not UTF-8 text", EXPECTED) from None


def users_of(path: str, text: str, stand_in_key: bytes = b"") -> Users:
    """Return the users of the file at `path` with this text. `stand_in_key`: if it has none. Raises FileError."""
    try:
        return read_users(text, stand_in_key)
    except UsersFileError as error:
        raise FileError(f"{path!r}, {error}", EXPECTED) from None
