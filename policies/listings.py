"""Replies that list topics and groups, without those that a client may not see: described in `sluice.listings`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import FORWARD, Forward, Replace
from wire.errors import ErrorCode, WireError
from wire.listing_cuts import LISTED as LISTED  # noqa: PLC0414 - re-exported: used with the functions below
from wire.listing_cuts import Keeps, cut, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Request, Response
    from policies.policy_log import PolicyLog


def without(
    request: Request,
    response: Response,
    *,
    keep_topic: Callable[[str], bool] | None = None,
    keep_group: Callable[[str], bool] | None = None,
    topic_name: Callable[[bytes], str | None] | None = None,
    log: PolicyLog | None = None,
) -> Forward | Replace:
    """Return a Replace with the reply without the topics and groups that are not kept; FORWARD if all are.

    `keep_topic` and `keep_group` get a name; None keeps all. `topic_name` is the host's. A reply that cannot be read is
    replaced by one that lists nothing, with UNKNOWN_SERVER_ERROR where the API has a place for it, and `log` gets a
    warning.

    Raises LookupError without the body, so unless the API is in `hears_body`, and for an API that is not in LISTED.
    """
    if response.body is None:
        raise LookupError(
            f"the {request.api.name} reply has no body here, expected its API in hears_body"
        )
    if request.api_key not in LISTED:
        raise LookupError(f"{request.api.name} is not in LISTED, the APIs whose replies can be cut")
    keeps = Keeps(keep_topic or _keep, keep_group or _keep, topic_name or _no_name)
    try:
        body = cut(request.api, response.body, keeps)
    except WireError as error:
        if log is not None:
            log.warning("a listing cannot be read", api=request.api.name, error=str(error))
        return Replace(nothing(request.api, ErrorCode.UNKNOWN_SERVER_ERROR))
    return FORWARD if body is None else Replace(body)


def _keep(_: str) -> bool:
    return True


def _no_name(_: bytes) -> None:
    return None
