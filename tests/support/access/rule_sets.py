"""Random rights of a user, twice: as ACLs of Kafka, and as rules of the policy `access`.

Rules:
- A right is a line of Kafka's: a kind, a name or the beginning of names, an operation, allow or deny.
- Acts on the cluster are finer than Kafka's operations: an operation becomes all acts that Kafka judges by it, and
  those that it implies.
- No rule stands for CREATE and DELETE on the cluster, nor for CLUSTER_ACTION: they are left out.
- The policy names a user in several ways (the name, its beginning, a team, a proof): one of them is chosen.
"""

from __future__ import annotations

import random
from typing import Any, Final, NamedTuple

from wire.authorization import Operation, ResourceType

LITERAL, PREFIXED = 3, 4
"""Kafka's `PatternType`."""
DENY, ALLOW = 2, 3
"""Kafka's `AclPermissionType`."""
CLUSTER_NAME: Final = "kafka-cluster"
PATTERNS: Final = {
    ResourceType.TOPIC: (
        *("orders", "orders.rich", "pay.in", "pay.out", "hr.people", "void"),
        *("*", "*", "orders*", "pay.*", "hr.*", "p*", "orders.*", "void*", "gone.*"),
    ),
    ResourceType.GROUP: (
        *("orders-app", "pay-app", "hr-app", "share-app", "streams-app", "void-app"),
        *("*", "*", "orders-*", "pay-*", "s*", "void*"),
    ),
    ResourceType.TRANSACTIONAL_ID: (
        *("orders-tx", "pay-tx", "void-tx", "*", "*", "orders-*", "p*", "void*"),
    ),
}
_OPERATIONS: Final = {
    ResourceType.TOPIC: ("READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    ResourceType.GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE",
    ResourceType.CLUSTER: "ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
}
KEYS: Final = {
    ResourceType.TOPIC: "topics",
    ResourceType.GROUP: "groups",
    ResourceType.TRANSACTIONAL_ID: "transactions",
}
"""The key of a rule by kind."""
_DESCRIBE: Final = ("describe", "describe-acls", "describe-users")
_DESCRIBE_CONFIGS: Final = ("describe-configs", "describe-quotas")
_OWN_ACTS: Final = {
    Operation.ALTER: (
        *("abort-transactions", "alter-acls", "alter-users", "features", "move-partitions"),
        "nodes",
    ),
    Operation.DESCRIBE: _DESCRIBE,
    Operation.DESCRIBE_CONFIGS: _DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS: ("alter-configs", "alter-quotas"),
    Operation.IDEMPOTENT_WRITE: ("idempotent-write",),
}
_IMPLIED_ACTS: Final = {
    Operation.ALTER: _DESCRIBE,
    Operation.ALTER_CONFIGS: _DESCRIBE_CONFIGS,
}


class Right(NamedTuple):
    """One line of Kafka's access rights."""

    kind: ResourceType
    pattern: str
    operation: Operation
    allows: bool

    def acl(self, user: str) -> dict[str, Any]:
        """Return the fields of a creation in CreateAcls."""
        is_prefix = self.pattern.endswith("*") and self.pattern != "*"
        return {
            "resource_type": int(self.kind),
            "resource_name": self.pattern[:-1] if is_prefix else self.pattern,
            "resource_pattern_type": PREFIXED if is_prefix else LITERAL,
            "principal": f"User:{user}",
            "host": "*",
            "operation": int(self.operation),
            "permission_type": ALLOW if self.allows else DENY,
        }

    def rule(self, who: str) -> dict[str, Any]:
        """Return the rule that says the same."""
        rule: dict[str, Any] = {"who": [who], "effect": "allow" if self.allows else "deny"}
        if self.kind is ResourceType.CLUSTER:
            implied = _IMPLIED_ACTS.get(self.operation, ()) if self.allows else ()
            return rule | {"cluster": [*_OWN_ACTS[self.operation], *implied]}
        return rule | {KEYS[self.kind]: {self.pattern: [self.operation.name.lower()]}}

    def __str__(self) -> str:
        """Return it as a short text."""
        effect = "allow" if self.allows else "deny"
        return f"{effect} {self.operation.name} on {self.kind.name} {self.pattern}"


def random_rights(chance: random.Random) -> list[Right]:
    """Return the rights of one user: often few, sometimes none, sometimes everything."""
    if chance.random() < 0.06:
        return []
    if chance.random() < 0.06:
        return every_right()
    found = []
    for kind, operations in _OPERATIONS.items():
        names = operations.split()
        for _ in range(chance.choice((0, 1, 2, 3, 4, 6))):
            pattern = (
                CLUSTER_NAME if kind is ResourceType.CLUSTER else chance.choice(PATTERNS[kind])
            )
            allows = chance.random() < 0.8
            found.append(Right(kind, pattern, Operation[chance.choice(names)], allows))
    return list(dict.fromkeys(found))


def every_right() -> list[Right]:
    """Return all rights that a rule can give."""
    return [
        Right(
            kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else "*", Operation[operation], True
        )
        for kind, operations in _OPERATIONS.items()
        for operation in operations.split()
    ]


def access_config(
    rights: dict[str, list[Right]], chance: random.Random, **more: object
) -> dict[str, Any]:
    """Return the settings of `access` with the rights of all these users, in any order."""
    teams: dict[str, list[str]] = {}
    rules = []
    for user, lines in rights.items():
        team = f"t{user}"
        teams[team] = [user]
        for line in lines:
            who = chance.choice((user, f"{user}*", f"team:{team}", f"sasl:{user}"))
            rules.append(line.rule(who))
    chance.shuffle(rules)
    rules.append({"who": ["nobody"], "topics": {"none": ["read"]}})
    return {"rules": rules, "teams": teams, **more}
