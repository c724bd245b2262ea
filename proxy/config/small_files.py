"""Files that settings name, and the file of the settings itself. They are read whole, and their size is bounded.

- No setting has a secret as its value: it names the file, or an environment variable has it.
- A FileError names the file or the variable, never a part of the content.
- Kubernetes replaces the file of a secret when it changes: a caller that reads it again gets the new content.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from policies.validation import Problem
from proxy.core.auth.secret_text import Secret
from proxy.shell import files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


PASSWORD_VARIABLE: Final = "SLUICE_UPSTREAM_SASL_PASSWORD"  # noqa: S105 - the name of a variable
CLIENT_SECRET_VARIABLE: Final = "SLUICE_UPSTREAM_SASL_CLIENT_SECRET"  # noqa: S105 - as above
MAX_SECRET_BYTES: Final = 64 << 10
_EXPECTED: Final = f"one line of text (UTF-8), 1..{MAX_SECRET_BYTES} bytes"


class FileError(ValueError):
    """A file, or a secret, that cannot be used. `found` names it; `expected` is what is needed instead."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected


def read_small_file(path: str, max_bytes: int, expected: str) -> bytes:
    """Return the content of a regular file, at least one byte. Raises FileError with `expected`."""
    try:
        content = files.read(path, max_bytes)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{path!r}: {words}", expected) from None
    if not content:
        raise FileError(f"{path!r}, which is empty", expected)
    return content


def is_open_to_others(path: str) -> bool:
    """Return whether users other than the file's owner and group may read it."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)  # noqa: PTH116 - one call, and the path is a text
    except (OSError, ValueError):
        return False


def read_secret(file: str, variable: str = "", environ: Mapping[str, str] = os.environ) -> Secret:
    """Return the secret in `file`, or in the environment variable if no file is named.

    One line break at its end is ignored. Raises FileError if there is none, and if it is empty, has several lines or
    exceeds MAX_SECRET_BYTES.
    """
    if file:
        where, content = repr(file), read_small_file(file, MAX_SECRET_BYTES, _EXPECTED)
    elif environ.get(variable):
        where, content = variable, os.fsencode(environ[variable])
        if len(content) > MAX_SECRET_BYTES:
            raise FileError(f"{where}, which has more than {MAX_SECRET_BYTES} bytes", _EXPECTED)
    else:
        raise FileError("nothing", f"a file, or the variable {variable}" if variable else "a file")
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if not line:
        raise FileError(f"{where}, which is empty", _EXPECTED)
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise FileError(f"{where}, which is not UTF-8 at byte {error.start}", _EXPECTED) from None
    if any(each in text for each in "\n\r\0"):
        raise FileError(f"{where}, which has several lines or a NUL character", _EXPECTED)
    return Secret(text)


def read_file(file: Path) -> tuple[object, dict[str, str], list[Problem]]:
    """Return the data, the origin (`file:line`) of every key path, and the problems of the YAML."""
    from policies.yaml_text import MAX_BYTES, read_yaml  # noqa: PLC0415 - a Sluice without such a file does without YAML

    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
    except OSError as error:
        words = f"the file cannot be read: {error.strerror or error}"
        return {}, {}, [Problem("", words, origin=str(file))]
    if len(text) > MAX_BYTES:
        words = f"more than {MAX_BYTES} bytes"
        return {}, {}, [Problem("", words, f"at most {MAX_BYTES} bytes", origin=str(file))]
    return read_yaml(text, str(file))
