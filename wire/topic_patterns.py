"""The pattern of a ConsumerGroupHeartbeat (v1+): a regular expression, which the broker matches with whole names.

Rules:
- `without_internal` gives a pattern of the same topics, but of none that begins with `__`. It understands the patterns
  whose beginning says what a name begins with; of any other it says nothing, so that nobody takes it for safe.
- Such a beginning is a letter, a digit, `-`, an escaped sign, a class of these, or a group of such alternatives; after
  `^`, one `_`, or `.*`.
"""

from __future__ import annotations

import re
from typing import Final

from wire.errors import WireError
from wire.primitives import (
    Buffer,
    compact_count,
    compact_length,
    encode_compact,
    skip,
    skip_compact,
)

MAX_CHARS: Final = 5_000
"""Of a pattern that is understood."""
_MAX_DEPTH: Final = 10
"""Of groups at the beginning."""
_ATOM: Final = re.compile(
    r"[A-Za-z0-9-]|\\[^A-Za-z0-9_]|\\d|\[(?:a-z|A-Z|0-9|[A-Za-z0-9.](?!-[^\]]))+-?\]", re.ASCII
)
"""One character that is not `_`."""
_ANYTHING: Final = re.compile(r"\.([*+])\??(?![*+?{])")
_MAY_BE_ABSENT: Final = ("*", "?", "{")


def pattern_at(body: Buffer) -> tuple[str, int, int]:
    """Return the pattern in the body of a ConsumerGroupHeartbeat v1 ("" for null), and where its field begins and ends.

    Raises `WireError` if the body ends before it, or the pattern is not valid UTF-8.
    """
    end = len(body)
    pos = skip(skip_compact(body, skip_compact(body, 0, end), end), 4, end)  # group, member, epoch
    pos = skip(skip_compact(body, skip_compact(body, pos, end), end), 4, end)  # instance, rack
    count, pos = compact_count(body, pos, end)
    for _ in range(count):
        pos = skip_compact(body, pos, end)
    length, at = compact_length(body, pos, end)
    stop = at + max(length, 0)
    try:
        return bytes(body[at:stop]).decode(), pos, stop
    except UnicodeDecodeError as error:
        raise WireError("the pattern is not valid UTF-8") from error


def with_pattern(body: bytes, pattern: str) -> bytes:
    """Return the body with another pattern. Raises `WireError` as `pattern_at`."""
    _, start, stop = pattern_at(body)
    return body[:start] + encode_compact(pattern.encode()) + body[stop:]


def without_internal(pattern: str) -> str | None:
    """Return a pattern of the same topics without those that begin with `__`; None if it is not understood."""
    return _shown(pattern, 0) if len(pattern) <= MAX_CHARS else None


def _shown(pattern: str, depth: int) -> str | None:
    parts = _alternatives(pattern)
    if parts is None:
        return None
    found = []
    for part in parts:
        shown = _shown_part(part.removeprefix("^"), depth)
        if shown is None:
            return None
        found.append(part if shown == part.removeprefix("^") else shown)
    return "|".join(found)


def _shown_part(part: str, depth: int) -> str | None:
    """Return an alternative without names that begin with `__`."""
    if _is_plain(part) or (part[:1] == "_" and _is_plain(part[1:])):
        return part
    if part[:1] == "(" and depth < _MAX_DEPTH and _end_of_group(part) == len(part):
        inner = part[1:-1].removeprefix("?:")  # librdkafka sends each of its patterns so
        shown = _shown(inner, depth + 1)
        return part if shown == inner else None if shown is None else f"(?:{shown})"
    anything = _ANYTHING.match(part)
    if anything is None:
        return None
    rest = part[anything.end() :]
    if rest in {"", "$"}:
        return "[^_].*|_[^_].*|_"
    if not _is_plain(rest):
        return None
    empty = f"|{rest}" if anything[1] == "*" else ""
    return f"[^_].*{rest}|_[^_].*{rest}|_{rest}{empty}"


def _is_plain(part: str, depth: int = 0) -> bool:
    """Return whether all that an alternative matches begins with a character that is not `_`."""
    atom = _ATOM.match(part)
    if atom is not None:
        return not part.startswith(_MAY_BE_ABSENT, atom.end())
    stop = _end_of_group(part) if part[:1] == "(" and depth < _MAX_DEPTH else 0
    if not stop or part.startswith(_MAY_BE_ABSENT, stop):
        return False
    inner = _alternatives(part[1 : stop - 1].removeprefix("?:"))
    return inner is not None and all(_is_plain(each, depth + 1) for each in inner)


def _alternatives(pattern: str) -> list[str] | None:
    """Return what stands between the `|` outside of groups; None if that is not certain."""
    found, depth, since = [], 0, 0
    for at, sign in _signs(pattern):
        if not sign:
            return None
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return None
        if sign == "|" and not depth:
            found.append(pattern[since:at])
            since = at + 1
    return None if depth else [*found, pattern[since:]]


def _end_of_group(part: str) -> int:
    """Return the offset after the group that begins here; 0 if that is not certain."""
    depth = 0
    for at, sign in _signs(part):
        if not sign:
            return 0
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return at + 1
    return 0


_TOKEN: Final = re.compile(r"\\[^Q]|\[\^?+(?:[^\]\[\\]|\\[^Q])+\]|[^\\\[]", re.DOTALL)
"""An escaped sign, a class, or a sign. Quoted parts and classes in classes are not understood."""


def _signs(pattern: str) -> list[tuple[int, str]]:
    """Return the signs `(`, `)` and `|` that are no text, with their offsets; "" where it is not understood."""
    found, pos = [], 0
    while pos < len(pattern):
        token = _TOKEN.match(pattern, pos)
        if token is None:
            return [(pos, "")]
        if token[0] in {"(", ")", "|"}:
            found.append((pos, token[0]))
        pos = token.end()
    return found
