"""Facts about a request that a policy adds to its line in the audit log."""

from __future__ import annotations

from typing import NamedTuple


class FailedItem(NamedTuple):
    """A part of a request that failed."""

    name: str
    """The topic, group, resource or user; several joined by `/`; empty: the whole request."""
    partition: int | None
    error: str
    """Kafka's name of the error code."""


class AuditFacts(NamedTuple):
    """The names in a request and the errors in its reply. None: not known."""

    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    errors: tuple[FailedItem, ...] | None = None
    """Empty: all of it was done."""
    left_out: int = 0
    """How many topics, groups and errors are not listed, because there are too many."""
    unread: str = ""
    """Why the request or the reply cannot be read."""
