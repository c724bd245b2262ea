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
from policies.access.creation import refused_creations
from policies.api import InTurns
from policies.responses import Replace
from wire.apis import OFFERED, ApiKey, known
from wire.authorization import AUTHORIZED, Operation, ResourceType, checks_of
from wire.listing_view import View

if TYPE_CHECKING:
    from collections.abc import Generator

    from policies.access.books import Asked
    from policies.access.rights import Subject
    from policies.api import Forward, Host, Request, Response

_DESCRIBE: Final = "describe"


def shown(
    request: Request, response: Response, subject: Subject, host: Host, asked: Asked
) -> Forward | Replace | InTurns:
    """Return a Replace without what the client may not see; FORWARD if it may see all. A large reply takes turns."""
    view = _view(request, subject, host, asked)
    if response.size_bytes > listings.LARGE_BYTES:
        return InTurns(_showing(request, response, view, host, asked))
    verdict = listings.shown(request, response, view, host.log)
    return _without_creations(request, response, verdict, asked)


def _showing(
    request: Request, response: Response, view: View, host: Host, asked: Asked
) -> Generator[None, None, Forward | Replace]:
    verdict = yield from listings.showing(request, response, view, host.log)
    return _without_creations(request, response, verdict, asked)


def _without_creations(
    request: Request, response: Response, verdict: Forward | Replace, asked: Asked
) -> Forward | Replace:
    """Return the verdict on a reply in which topics that the client may not create are refused."""
    if not asked.creations:
        return verdict
    body = verdict.body if isinstance(verdict, Replace) else response.body
    refused = refused_creations(request.api, body or b"", asked.creations)
    return verdict if refused is None else Replace(refused)


def _view(request: Request, subject: Subject, host: Host, asked: Asked) -> View:
    return View(
        partial(_allows, subject, request.api_key),
        subject.mask,
        cluster_mask(subject),
        host.topic_name,
        subject.next_topic,
        asked.by_id,
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
