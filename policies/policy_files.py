"""Policies that are single files of the directories in `policies_path`.

Rules:
- `use: NAME` is the one policy of NAME.py; `use: NAME:Class` one of several. A name that two places have is an error.
- A file is compiled from the bytes that were read, so its digest is that of the code that runs. A file that has not
  changed keeps its classes; a changed one is a new module, and the old policy keeps its own until it is replaced.
- A directory or file that another user may change is refused (`why_untrusted`): its code has the rights of Sluice.
"""

from __future__ import annotations

import linecache
import sys
from hashlib import blake2b
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from policies.api import Policy
from policies.plugin_sources import note_replaced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_FILE_BYTES: Final = 1 << 20
_PACKAGE: Final = "sluice_policy_files"
_RAISED: Final = (Exception, SystemExit, GeneratorExit)


class FileReader(Protocol):
    """Reads files, and judges who may change them. Both raise OSError."""

    def read(self, path: str, max_bytes: int, /) -> bytes:
        """Return the content of a file."""

    def why_untrusted(self, path: str, /) -> str:
        """Return why another user may change the code that this path leads to; "" if none may."""


class FilePolicy(NamedTuple):
    """A policy of a file, and the digest of the file."""

    kind: type[Policy]
    path: str
    digest: str


class PolicyFileError(Exception):
    """A file or directory cannot be used; the message says why, with file and line."""


_loaded: dict[str, tuple[str, ModuleType]] = {}
"""By path: the digest of the file, and its module."""


def policy_files(directories: Sequence[str], files: FileReader) -> dict[str, list[str]]:
    """Return the files by the name of their policies; a name in several directories has several files.

    Raises PolicyFileError if a directory cannot be read, or another user may change it.
    """
    found: dict[str, list[str]] = {}
    for directory in directories:
        folder = Path(directory)
        try:
            _refuse_untrusted(directory, files)
            names = sorted(each.name for each in folder.iterdir())
        except OSError as error:
            raise PolicyFileError(f"{directory} cannot be read: {error.strerror}") from error
        for name in names:
            stem = name.removesuffix(".py")
            if stem != name and stem.isidentifier() and not stem.startswith("_"):
                found.setdefault(stem, []).append(str(folder / name))
    return found


def load_file(path: str, class_name: str, files: FileReader) -> FilePolicy:
    """Return the policy of this file; `class_name` chooses one of several.

    Raises PolicyFileError if it cannot be read or imported, or does not have exactly one such policy.
    """
    try:
        _refuse_untrusted(path, files)
        source = files.read(path, MAX_FILE_BYTES)
    except OSError as error:
        raise PolicyFileError(f"{path} cannot be read: {error.strerror}") from error
    digest = blake2b(source, digest_size=16).hexdigest()
    if path not in _loaded or _loaded[path][0] != digest:
        known = _loaded.get(path)
        _loaded[path] = digest, _module_of(path, source)
        if known is not None:
            note_replaced(known[1])
    module = _loaded[path][1]
    kinds = {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type)
        and issubclass(kind, Policy)
        and kind.__module__ == module.__name__
        and hasattr(kind, "Config")
    }
    if class_name:
        if class_name not in kinds:
            raise PolicyFileError(f"{path} has no policy {class_name}, only {_listed(kinds)}")
        return FilePolicy(kinds[class_name], path, digest)
    public = {name: kind for name, kind in kinds.items() if not name.startswith("_")}
    if len(public) != 1:
        raise PolicyFileError(
            f"{path} has {len(public)} policies with a Config ({_listed(public)}), expected one, or `use: NAME:CLASS`"
        )
    (kind,) = public.values()
    return FilePolicy(kind, path, digest)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"


def _refuse_untrusted(path: str, files: FileReader) -> None:
    if why := files.why_untrusted(path):
        raise PolicyFileError(f"{path} cannot be trusted: {why}: its code would run here")


def _module_of(path: str, source: bytes) -> ModuleType:
    name = f"{_PACKAGE}.{Path(path).stem}"
    module = ModuleType(name)
    module.__file__ = path
    before = sys.modules.get(name)
    sys.modules[name] = module  # msgspec looks the types of annotations up there
    linecache.checkcache(path)
    try:
        exec(compile(source, path, "exec"), vars(module))  # noqa: S102 - the operator's code, as an import would run it
    except _RAISED as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise PolicyFileError(
            f"{path}:{_line_of(path, error)} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return module


def _line_of(path: str, error: BaseException) -> int:
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 0
    lines = [each.lineno for each in extract_tb(error.__traceback__) if each.filename == path]
    return (lines and lines[-1]) or 0
