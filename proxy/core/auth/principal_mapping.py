r"""Makes the user of a client certificate from its subject, by the rules of Kafka's `ssl.principal.mapping.rules`.

    DEFAULT                             the subject itself
    RULE:pattern/replacement/           the pattern must match the whole subject; $1 is its first group
    RULE:pattern/replacement/L          ... in lower case (U: in upper case)

- The first rule that matches applies. A slash in a pattern or a replacement is written `\/`.
- Patterns are Java's in Kafka and Python's here. A pattern that Python does not have, or reads in another way,
  is refused when the rules are read.
- A pattern comes from the operator, the subject from the client's certificate. Its length is bounded, because a
  pattern with many `.*` takes long for a long subject.

Source: Kafka's `SslPrincipalMapper` (KIP-371), Java's `Matcher.replaceAll`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_SUBJECT_CHARS: Final = 1024
"""No user is made from a longer subject, nor a longer user from any."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)", re.ASCII)
_PARSER: Final = re.compile(_RULE)
_EXPECTED: Final = "DEFAULT or RULE:pattern/replacement/ with L or U after it"
_IS_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]").search
"""Characters that Java's and Python's `.` and `$` treat differently; a principal must not have them."""
_SIGN: Final = re.compile(r"\\.|\[\^?]?|]|&&|--|~~|\|\||[^\\]", re.DOTALL).finditer
_REFERENCE: Final = re.compile(r"\\(.?)|\$([0-9]+)|\$|[^\\$]+", re.DOTALL).finditer


class MappingRuleError(ValueError):
    """A rule that Kafka or Sluice cannot use; the message names it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """`parts` of the replacement: text, and the numbers of groups. `case`: L, U or "". No `pattern`: DEFAULT."""

    text: str
    pattern: re.Pattern[str] | None = None
    parts: tuple[str | int, ...] = ()
    case: str = ""

    def maybe_apply(self, subject: str) -> str | None:
        pattern = self.pattern
        if pattern is None:
            return subject
        if pattern.fullmatch(subject) is None:
            return None
        name = pattern.sub(self._replacement, subject)  # Kafka replaces each match, not the whole
        return {"L": name.lower, "U": name.upper}.get(self.case, name.__str__)()

    def _replacement(self, found: re.Match[str]) -> str:
        return "".join(
            part if isinstance(part, str) else found.group(part) or "" for part in self.parts
        )


class PrincipalMapper:
    """The rules of one listener. `rules`: as Kafka shows them, in order."""

    __slots__ = ("_rules", "rules")

    def __init__(self, rules: Iterable[str]) -> None:
        """Read the rules. Each text is one rule or several with commas between them, as Kafka's setting has them.

        Raises: MappingRuleError for a rule that cannot be used, and if there is none.
        """
        self._rules = tuple(rule for text in rules for rule in _parse(text))
        self.rules = tuple(rule.text for rule in self._rules)
        if not self._rules:
            raise MappingRuleError(f"there is no principal mapping rule, expected {_EXPECTED}")

    def user_of(self, subject: str) -> str | None:
        """Return the user of a certificate with this subject (RFC 2253, as Java prints it).

        None: no rule matches, the name that it gives is empty or too long, or the subject is too long or has control
        characters. Then the client has no user, and Kafka ends the connection.
        """
        if len(subject) > MAX_SUBJECT_CHARS or _IS_CONTROL(subject):
            return None
        for rule in self._rules:
            user = rule.maybe_apply(subject)
            if user is not None:
                return user if 0 < len(user) <= MAX_SUBJECT_CHARS else None
        return None


def _parse(text: str) -> Iterator[_Rule]:
    """Yield the rules of one text. Empty ones are ignored. Raises MappingRuleError."""
    for found in _SPLITTER.finditer(text.strip()):
        rule = found[1]
        parsed = _PARSER.match(rule)
        end = 0 if parsed is None else parsed.end()
        if parsed is None or end != len(rule):
            raise MappingRuleError(
                f"principal mapping rule {rule!r} is invalid at {rule[end:]!r}, expected {_EXPECTED}"
            )
        default, pattern, replacement, case = parsed.group(1, 2, 3, 4)
        if default is not None:
            yield _Rule(default)
        elif pattern is not None:
            compiled = _compiled(rule, pattern)
            parts = tuple(_parts(rule, replacement, compiled.groups))
            shown = f"RULE:{pattern}/{replacement}" + (f"/{case}" if case else "")
            yield _Rule(shown, compiled, parts, case)


def _compiled(rule: str, pattern: str) -> re.Pattern[str]:
    r"""Return the pattern, with Java's ASCII meaning of \d, \w and \s. Raises MappingRuleError."""
    in_class = False
    for found in _SIGN(pattern):
        sign = found[0]
        if sign.startswith("\\0"):
            raise _unusable(rule, pattern, "octal escapes are not supported")
        if in_class and (sign.startswith("[") or sign in {"&&", "--", "~~", "||"}):
            raise _unusable(
                rule, pattern, f"{sign.rstrip(']^')} in a character class is not supported"
            )
        if sign.startswith("["):
            in_class = True
        elif sign == "]":
            in_class = False
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise _unusable(rule, pattern, str(error)) from error


def _parts(rule: str, replacement: str, groups: int) -> Iterator[str | int]:
    r"""Yield text and group numbers, as `Matcher.appendReplacement` reads them. Raises MappingRuleError.

    \x is the character x. $12 is group 1 and the text "2" if there is no group 12. A number of which not even
    the first digit is a group is text, unless the pattern has no group at all.
    """
    for found in _REFERENCE(replacement):
        escaped, digits = found.group(1, 2)
        if escaped is not None:
            if not escaped:
                raise _unusable(rule, replacement, r"there is no character after the last \ ")
            yield escaped
        elif digits is not None:
            taken = 1
            while taken < len(digits) and int(digits[: taken + 1]) <= groups:
                taken += 1
            number = int(digits[:taken])
            if number <= groups:
                yield number
                yield digits[taken:]
            elif groups:
                yield found[0]
            else:
                raise _unusable(rule, replacement, f"the pattern has no group {number}")
        elif found[0] == "$":
            raise _unusable(rule, replacement, r"expected a digit after $ (a dollar sign is \$)")
        else:
            yield found[0]


def _unusable(rule: str, part: str, why: str) -> MappingRuleError:
    return MappingRuleError(f"principal mapping rule {rule!r}: cannot use {part!r}: {why.strip()}")
