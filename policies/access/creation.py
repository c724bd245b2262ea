"""Topics that a broker would create because a client asks for their metadata.

Rules:
- A client that may not create one of them creates none: the request says so to the broker, from Metadata v4 on. Such a
  topic, if it does not exist, is answered as Kafka's authorizer does: by TOPIC_AUTHORIZATION_FAILED.
- Below v4 a request cannot say so. There these topics get UNSUPPORTED_VERSION, whether they exist or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import Patch
from wire.authorization import Operation
from wire.errors import ErrorCode
from wire.metadata import auto_creation_at
from wire.primitives import INT16
from wire.topic_existence import unknown_topics

if TYPE_CHECKING:
    from collections.abc import Collection

    from policies.access.rights import Subject
    from policies.api import Request
    from wire.apis import Api

FIRST_WITH_FLAG: Final = 4
"""The first version of Metadata that says whether topics may be created."""
_CREATE: Final = 1 << Operation.CREATE
_REFUSED: Final = INT16.pack(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def forbidden_creations(request: Request, subject: Subject) -> frozenset[str]:
    """Return the topics that a Metadata would create, and the client may not."""
    if all(subject.topic(name) & _CREATE for name in request.created):
        return frozenset()
    return frozenset(name for name in request.created if not subject.topic(name) & _CREATE)


def without_creation(request: Request) -> tuple[Patch, ...]:
    """Return the patch with which a Metadata request (v4+) creates no topic."""
    at = auto_creation_at(request.body or b"", request.api_version)
    return (Patch(at, b"\0"),)


def refused_creations(api: Api, body: bytes, names: Collection[str]) -> bytes | None:
    """Return the body of a Metadata reply in which these topics, if unknown, are refused; None if all are known."""
    places = unknown_topics(api, body, names)
    if not places:
        return None
    changed = bytearray(body)
    for at in places:
        changed[at : at + INT16.size] = _REFUSED
    return bytes(changed)
