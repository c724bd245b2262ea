"""Masks of operations by pattern: what the rules say of one kind of names.

Rules:
- READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS allows DESCRIBE_CONFIGS, as in Kafka. A denied READ denies
  no DESCRIBE.
- A name that begins with `__` is allowed only by patterns that begin so, and by itself: `*` gives no internal topic. It
  is denied by all that fit.
- A mask has the bit `1 << operation`, as AuthorizedOperations have in Kafka's replies.
- A name costs one look for each length that a pattern has and each text of `who` that fits the client, however many
  rules there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.edges import edges_of
from wire.authorization import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INTERNAL: Final = "__"
_IMPLIED: Final = (
    (Operation.DESCRIBE, (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    (Operation.DESCRIBE_CONFIGS, (Operation.ALTER_CONFIGS,)),
)


class Masks(NamedTuple):
    """What is allowed, and what is denied, with what it implies."""

    allowed: int
    denied: int

    @property
    def left(self) -> int:
        """What may be done."""
        return self.allowed & ~self.denied


NOTHING: Final = Masks(0, 0)


class Patterns:
    """The masks of one kind of names: by pattern, and by the number of a text of `who`."""

    def __init__(self) -> None:
        self._names: dict[str, dict[int, Masks]] = {}
        self._prefixes: dict[str, dict[int, Masks]] = {}
        self._lengths: list[int] = []

    def add(self, pattern: str, who: Iterable[int], mask: int, *, allows: bool) -> None:
        """Add what one rule says."""
        prefix = pattern[:-1]
        if pattern.endswith("*"):
            by_who = self._prefixes.setdefault(prefix, {})
            if len(prefix) not in self._lengths:
                self._lengths.append(len(prefix))
        else:
            by_who = self._names.setdefault(pattern, {})
        for number in who:
            allowed, denied = by_who.get(number, NOTHING)
            by_who[number] = Masks(
                allowed | with_implied(mask) if allows else allowed,
                denied if allows else denied | mask,
            )

    def masks(self, name: str, who: Iterable[int]) -> Masks:
        """Return the masks that all patterns together give to a name, for a client with these numbers."""
        found: list[Mapping[int, Masks]] = [self._names[name]] if name in self._names else []
        short: list[Mapping[int, Masks]] = []
        is_internal = name.startswith(INTERNAL)
        for length in self._lengths:
            if length <= len(name):
                by_who = self._prefixes.get(name[:length])
                if by_who is not None:
                    (short if is_internal and length < len(INTERNAL) else found).append(by_who)
        masks = _joined(found, who)
        return Masks(masks.allowed, masks.denied | _joined(short, who).denied) if short else masks

    def of_all(self, who: Iterable[int]) -> Masks:
        """Return what is allowed for every name (`*`), and what is denied for any."""
        allowed = _joined([self._prefixes.get("", {})], who).allowed
        denied = _joined([*self._names.values(), *self._prefixes.values()], who).denied
        return Masks(allowed, denied)

    def edges(self, who: frozenset[int]) -> list[str]:
        """Return the edges of the rules that fit a client (`policies.access.edges`)."""
        names, prefixes = (
            [pattern for pattern, by_who in patterns.items() if not who.isdisjoint(by_who)]
            for patterns in (self._names, self._prefixes)
        )
        return edges_of(names, [*prefixes, INTERNAL])

    def of_any(self, who: Iterable[int], mask: int) -> bool:
        """Return whether `mask` is allowed for any name: by a pattern that no wider denied one covers.

        Kafka: `Authorizer.authorizeByResourceType`.
        """
        who = frozenset(who)
        for prefixes, patterns in ((False, self._names), (True, self._prefixes)):
            for pattern, by_who in patterns.items():
                masks = _joined([by_who], who)
                if not masks.allowed & mask or (not prefixes and masks.denied & mask):
                    continue
                wider = [
                    self._prefixes[pattern[:length]]
                    for length in self._lengths
                    if length <= len(pattern) and pattern[:length] in self._prefixes
                ]
                if not _joined(wider, who).denied & mask:
                    return True
        return False


def with_implied(mask: int) -> int:
    """Return the mask with the operations that those in it imply."""
    for implied, givers in _IMPLIED:
        if any(mask & 1 << each for each in givers):
            mask |= 1 << implied
    return mask


def _joined(found: Iterable[Mapping[int, Masks]], who: Iterable[int]) -> Masks:
    allowed = denied = 0
    for by_who in found:
        for number in who:
            masks = by_who.get(number)
            if masks is not None:
                allowed |= masks.allowed
                denied |= masks.denied
    return Masks(allowed, denied)
