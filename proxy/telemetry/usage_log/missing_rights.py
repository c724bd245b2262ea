"""The rights that clients lacked, by the policy `access` in mode `observe`: for the family `access` of the usage log.

Rules:
- The loop only keeps the decision. The writer's thread makes a row of each client and right.
- A second has MAX_RIGHTS rights; those of further decisions are counted as lost rows.
- A topic whose name is not known is left out: its client asks for the name, and tries again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.denial import Deny
from wire.authorization import Ask, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.decision import PolicyDecision

MAX_RIGHTS: Final = 10_000
KINDS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transaction",
    ResourceType.CLUSTER: "cluster",
}
"""A kind as rows have it."""


class MissingRight(NamedTuple):
    """A right that a client needs and does not have."""

    user: str
    proof: str
    client_id: str
    policy: str
    kind: str
    name: str | None
    """Of the cluster: the act. None: all topics."""
    operation: str


class Taken(NamedTuple):
    """The decisions of one second."""

    decisions: Sequence[PolicyDecision] = ()
    rights: int = 0
    """Of all decisions."""
    lost: int = 0
    """Rights of decisions that were not kept."""


class MissingRights:
    """Keeps the decisions of one second."""

    def __init__(self) -> None:
        self._decisions: list[PolicyDecision] = []
        self._rights = 0
        self._lost = 0

    def add(self, decision: PolicyDecision) -> None:
        """Keep a decision if it denies rights, and there is room for it."""
        verdict = decision.verdict
        if type(verdict) is not Deny:
            return
        if self._rights + len(verdict.codes) > MAX_RIGHTS:
            self._lost += len(verdict.codes)
        else:
            self._rights += len(verdict.codes)
            self._decisions.append(decision)

    def take(self) -> Taken:
        """Return what was kept since the last call."""
        taken = Taken(self._decisions, self._rights, self._lost)
        self._decisions, self._rights, self._lost = [], 0, 0
        return taken


def count_rights(decisions: Iterable[PolicyDecision]) -> Counter[MissingRight]:
    """Return how many requests lacked each right."""
    found: Counter[MissingRight] = Counter()
    for decision in decisions:
        peer, verdict = decision.peer, decision.verdict
        denied: Iterable[object] = verdict.codes if isinstance(verdict, Deny) else ()
        for ask in denied:
            if isinstance(ask, Ask) and not isinstance(ask.name, bytes):
                operation = Operation(ask.operation).name.lower().replace("_", "-")
                right = MissingRight(
                    *(peer.user, peer.proof, peer.client_id, decision.policy, KINDS[ask.kind]),
                    *(ask.name, operation),
                )
                found[right] += 1
    return found
