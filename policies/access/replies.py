"""What a client sees of replies that list topics, groups and transactions: only what its rules show.

Rules:
- As Kafka's: a topic, a group or a transactional id is listed with DESCRIBE; groups also by the act `describe`.
- AuthorizedOperations are what the rules allow. Those of the cluster are told to who may `describe` it: an operation
  is among them if all acts that it stands for are allowed.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from policies import listings
from wire.apis import OFFERED, ApiKey, known
from wire.authorization import AUTHORIZED, Operation, ResourceType, checks_of

if TYPE_CHECKING:
    from policies.access.rights import Subject
    from policies.api import Forward, Host, Replace, Request, Response

_DESCRIBE: Final = "describe"


def shown(
    request: Request, response: Response, subject: Subject, host: Host, *, asks_by_id: bool
) -> Forward | Replace:
    """Return a Replace without what the client may not see; FORWARD if it may see all."""
    return listings.without(
        request,
        response,
        allows=partial(_allows, subject, request.api_key),
        mask=subject.mask,
        cluster_mask=cluster_mask(subject),
        topic_name=host.topic_name,
        next_topic=subject.next_topic,
        asks_by_id=asks_by_id,
        log=host.log,
    )


def _allows(
    subject: Subject, api_key: int, kind: ResourceType, name: str, operation: Operation
) -> bool:
    if subject.mask(kind, name) >> operation & 1:
        return True
    return (
        kind is ResourceType.GROUP and api_key == ApiKey.LIST_GROUPS and _DESCRIBE in subject.acts
    )


def cluster_mask(subject: Subject) -> int:
    """Return AuthorizedOperations of the cluster; 0 without the act `describe`."""
    if _DESCRIBE not in subject.acts:
        return 0
    mask = 1 << Operation.DESCRIBE
    for operation, acts in _acts().items():
        if acts <= subject.acts:
            mask |= 1 << operation
    return mask


@cache
def _acts() -> dict[Operation, set[str]]:
    """Return the acts that each operation on the cluster stands for."""
    found: dict[Operation, set[str]] = {}
    for key in AUTHORIZED & OFFERED.keys():
        api = known(key, OFFERED[key][0])
        for check in checks_of(api) if api is not None else ():
            if check.act:
                found.setdefault(check.operation, set()).add(check.act)
    return found
