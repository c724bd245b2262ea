"""Rules of `access` as YAML, ready to be put under `policies`.

A name is written without quotes only if it is plain letters: names may come from clients, and must stay names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy.cli.rule_lines import RuleText

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*\*?")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""YAML reads them as something else than text."""


def rules_text(rules: Iterable[RuleText], comment: str) -> str:
    """Return an entry of `policies` with these rules, below a comment of one line."""
    lines = [f"# {comment}", "- use: access", "  config:", "    rules:"]
    for rule in rules:
        lines += _rule_lines(rule)
    return "\n".join(lines)


def _rule_lines(rule: RuleText) -> Iterator[str]:
    yield f"      - who: {_list(rule.who)}"
    if not rule.allows:
        yield "        effect: deny"
    for key, patterns in (
        ("topics", rule.topics),
        ("groups", rule.groups),
        ("transactions", rule.transactions),
    ):
        yield from _patterns(key, patterns)
    if rule.cluster:
        yield f"        cluster: {_list(rule.cluster)}"


def _patterns(key: str, patterns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if patterns:
        yield f"        {key}:"
        for pattern, operations in patterns.items():
            yield f"          {quoted(pattern)}: {_list(operations)}"


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def quoted(text: str) -> str:
    """Return a text as YAML has it, with an escape for every character that is not printable ASCII."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
