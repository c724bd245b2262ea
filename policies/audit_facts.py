"""Facts about a request that a policy adds to its line in the audit log."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class AuditItem(NamedTuple):
    """A part of a request, and what came of it."""

    name: str
    """The topic, group, resource or user; several joined by `/`; empty: the whole request."""
    partition: int | None
    error: str = ""
    """Kafka's name of the error code; empty: it was done."""


class AuditFacts(NamedTuple):
    """The names in a request, and what its reply says of them. None: not known."""

    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    errors: tuple[AuditItem, ...] | None = None
    """Empty: all of it was done."""
    left_out: Mapping[str, int] = MappingProxyType({})
    """How many items are not listed because there are too many, by member: `topics`, `groups`, `done`, `errors`."""
    unread: str = ""
    """Why the request or the reply cannot be read."""
    done: tuple[AuditItem, ...] | None = None
    """Items that were done, where the reply says so. Listed apart, so that no number of failures hides them."""

    @property
    def has_failed(self) -> bool:
        """Whether the reply says that nothing of the request was done."""
        return bool(self.errors) and not self.done
