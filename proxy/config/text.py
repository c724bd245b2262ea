"""The effective configuration as YAML that can be loaded again, with the source of each value.

- A value per line, a list of plain values on one line; comments stand in a column of their own.
- Every setting is written, so the text means the same when a default changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import yaml

from policies.validation import join_path
from proxy.config.sources import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.config.sources import Effective

_COLUMN = 56


def render(effective: Effective) -> str:
    """Return the YAML text, with a newline at its end."""
    data = msgspec.to_builtins(effective.config)
    lines = _mapping(data, "", 0, effective.origins)
    return "".join(f"{text:<{_COLUMN}}# {note}\n" if note else f"{text}\n" for text, note in lines)


def _mapping(
    data: Mapping[str, object], path: str, depth: int, origins: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each line without its comment, and the comment or ''."""
    for key, value in data.items():
        yield from _entry(
            f"{'  ' * depth}{_flow(key)}:", value, join_path(path, str(key)), depth, origins
        )


def _entry(
    lead: str, value: object, path: str, depth: int, origins: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        yield lead, ""
        yield from _mapping(value, path, depth + 1, origins)
    elif isinstance(value, list | tuple) and any(isinstance(each, dict) for each in value):
        yield lead, ""
        for place, each in enumerate(value):
            yield from _item(each, f"{path}[{place}]", depth + 1, origins)
    else:
        yield f"{lead} {_flow(value)} ", origins.get(path, DEFAULT)


def _item(
    value: object, path: str, depth: int, origins: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict) or not value:
        yield f"{'  ' * depth}- {_flow(value)} ", origins.get(path, DEFAULT)
        return
    for place, (text, note) in enumerate(_mapping(value, path, depth + 1, origins)):
        yield (text if place else f"{'  ' * depth}- {text.lstrip()}"), note


def _flow(value: object) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_flow, value))}]"
    # Only double quotes keep line ends and other unprintable characters on this line.
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    text = yaml.safe_dump([value], default_flow_style=True, default_style=style, width=1 << 30)
    return text.strip().removeprefix("[").removesuffix("]")
