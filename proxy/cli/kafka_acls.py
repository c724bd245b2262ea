"""Kafka's ACLs: read from the output of `kafka-acls --list`, or asked of a cluster (DescribeAcls)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.admin.errors import RefusedError
from proxy.cli.kafka_client import error_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.cli.kafka_client import Connection

ANY_HOST: Final = "*"
EVERYTHING: Final = "*"
"""A literal name that stands for all names of its type."""
MAX_LISTING_BYTES: Final = 64 << 20
_HEADING: Final = re.compile(
    r"Current ACLs for resource `ResourcePattern"
    r"\(resourceType=(\w+), name=(.*), patternType=(\w+)\)`:\s*"
)
_ENTRY: Final = re.compile(
    r"\s*\(principal=(.*), host=(.*), operation=(\w+), permissionType=(ALLOW|DENY)\)\s*"
)
_VERSION: Final = 2
_ANY: Final = 1
_TYPES: Final = {
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
_ALL: Final = 2
_PATTERNS: Final = {3: "LITERAL", 4: "PREFIXED"}
_PERMISSIONS: Final = {2: "DENY", 3: "ALLOW"}


class Acl(NamedTuple):
    """One access control entry, in Kafka's words."""

    resource_type: str
    """TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER."""
    name: str
    pattern_type: str
    """LITERAL or PREFIXED."""
    principal: str
    """`User:alice`."""
    host: str
    operation: str
    permission: str
    """ALLOW or DENY."""

    def __str__(self) -> str:
        """Return the entry in one line."""
        host = "" if self.host == ANY_HOST else f" from {self.host}"
        kind = (
            self.resource_type if self.pattern_type == "LITERAL" else f"{self.resource_type} prefix"
        )
        return f"{self.permission} {self.operation} on {kind} {self.name} to {self.principal}{host}"


def parse_listing(text: str) -> Iterator[Acl]:
    """Yield the entries of `kafka-acls --list`. Raises ValueError for a line that is none of its output."""
    resource: tuple[str, str, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        heading, entry = _HEADING.fullmatch(line), _ENTRY.fullmatch(line)
        if heading is not None:
            kind, name, pattern = heading.groups()
            resource = kind, name, pattern
        elif entry is not None and resource is not None:
            principal, host, operation, permission = entry.groups()
            yield Acl(*resource, principal, host, operation, permission)
        else:
            words = "a line of `kafka-acls --list`"
            raise ValueError(f"line {number}: found {line.strip()[:80]!r}, expected {words}")


def described(connection: Connection) -> list[Acl]:
    """Return all entries of the cluster at the other end. Raises UnreachableError or RefusedError."""
    from kafka.protocol.admin import DescribeAclsRequest  # type: ignore[import-untyped] # noqa: PLC0415 - half a second

    answer = connection.ask(
        DescribeAclsRequest(
            version=_VERSION,
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
    )
    if answer.error_code:
        message = answer.error_message or error_name(answer.error_code)
        raise RefusedError(answer.error_code, message)
    return [
        Acl(
            _TYPES.get(resource.resource_type, f"type {resource.resource_type}"),
            resource.resource_name,
            _PATTERNS.get(resource.pattern_type, f"pattern {resource.pattern_type}"),
            each.principal,
            each.host,
            _operation(each.operation),
            # An unknown permission must not become an allow.
            _PERMISSIONS.get(each.permission_type, "DENY"),
        )
        for resource in answer.resources
        for each in resource.acls
    ]


def _operation(number: int) -> str:
    from wire.authorization import Operation  # noqa: PLC0415 - start-up of other commands

    if number == _ALL:
        return "ALL"
    try:
        return Operation(number).name
    except ValueError:
        return f"operation {number}"
