"""Read the configuration's YAML file: once, whole, before anything is bound or dialled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.validation import Problem
from policies.yaml_text import MAX_BYTES, read_yaml

if TYPE_CHECKING:
    from pathlib import Path


def read_file(file: Path) -> tuple[object, dict[str, str], list[Problem]]:
    """Return the data, the origin (`file:line`) of every key path, and the problems of the YAML."""
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
