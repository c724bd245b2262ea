"""Replies that tell of topics, groups and transactional ids, without those that a client may not see: described in
`sluice.listings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Forward, Replace
from wire.errors import ErrorCode, WireError
from wire.listing_cuts import FILTERED as FILTERED  # noqa: PLC0414 - re-exported: used with the functions below
from wire.listing_cuts import LISTED as LISTED  # noqa: PLC0414
from wire.listing_cuts import cut, cutting, nothing
from wire.listing_view import View

LARGE_BYTES: Final = 16 << 10
"""A larger reply is worth several turns."""

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from policies.api import Request, Response
    from policies.policy_log import PolicyLog
    from wire.authorization import Operation, ResourceType


def without(
    request: Request,
    response: Response,
    *,
    allows: Callable[[ResourceType, str, Operation], bool],
    mask: Callable[[ResourceType, str], int] | None = None,
    cluster_mask: int | None = None,
    topic_name: Callable[[bytes], str | None] | None = None,
    next_topic: Callable[[str], str | None] | None = None,
    asks_by_id: bool = False,
    log: PolicyLog | None = None,
) -> Forward | Replace:
    """Return a Replace with the reply without what the client may not see; FORWARD if it may see all of it.

    - `allows` says whether an operation on a name is allowed: DESCRIBE, or DESCRIBE_CONFIGS where configs are shown.
    - `mask` gives all operations that are allowed on a name, and `cluster_mask` those on the cluster, each as the bit
      `1 << operation`: what AuthorizedOperations keep of the broker's. None: they stay.
    - `topic_name` is the host's.
    - `next_topic` gives the first name after a hidden one that may be shown, as far as the policy knows, or None. It is
      asked for a page of DescribeTopicPartitions that shows nothing. By default its cursor names the hidden topic.
    - `asks_by_id`: a Metadata request has asked for topics by id, and a hidden one is refused, not left out.

    A reply that cannot be read is replaced by one that lists nothing, with UNKNOWN_SERVER_ERROR where the API has a
    place for it, and `log` gets a warning.

    Raises LookupError without the body, so unless the API is in `hears_body`, and for an API that is not in LISTED.
    """
    view = View(
        allows,
        mask,
        cluster_mask,
        topic_name or _no_name,
        next_topic or _same_name,
        asks_by_id,
    )
    return shown(request, response, view, log)


def shown(
    request: Request, response: Response, view: View, log: PolicyLog | None = None
) -> Forward | Replace:
    """Do as `without`."""
    body = _body(request, response)
    try:
        changed = cut(request.api, body, view)
    except WireError as error:
        return _nothing(request, error, log)
    return FORWARD if changed is None else Replace(changed)


def showing(
    request: Request, response: Response, view: View, log: PolicyLog | None = None
) -> Generator[None, None, Forward | Replace]:
    """Do as `shown`, with a pause after some hundred names: for a verdict InTurns."""
    body = _body(request, response)
    try:
        changed = yield from cutting(request.api, body, view)
    except WireError as error:
        return _nothing(request, error, log)
    return FORWARD if changed is None else Replace(changed)


def _body(request: Request, response: Response) -> bytes:
    if response.body is None:
        raise LookupError(
            f"the {request.api.name} reply has no body here, expected its API in hears_body"
        )
    if request.api_key not in LISTED:
        raise LookupError(f"{request.api.name} is not in LISTED, the APIs whose replies can be cut")
    return response.body


def _nothing(request: Request, error: WireError, log: PolicyLog | None) -> Replace:
    if log is not None:
        log.warning("a listing cannot be read", api=request.api.name, error=str(error))
    return Replace(nothing(request.api, ErrorCode.UNKNOWN_SERVER_ERROR))


def _no_name(_: bytes) -> None:
    return None


def _same_name(name: str) -> str:
    return name
