"""Policies show only some topics and groups of a listing, and nothing of one that they cannot read."""

import pytest

from policies import listings, messages
from policies.api import FORWARD, Replace
from policies.testing import BenchRequest, BenchResponse
from tests.support.messages.kafka_messages import api_of
from wire.apis import ApiKey
from wire.authorization import Operation, ResourceType
from wire.errors import ErrorCode

METADATA = BenchRequest(api_of(ApiKey.METADATA, 12))


def public(_: ResourceType, name: str, __: Operation) -> bool:
    """Names that are shown."""
    return name.startswith("public")


def every(_: ResourceType, __: str, ___: Operation) -> bool:
    """All are shown."""
    return True


def reply(*topics: str) -> BenchResponse:
    """Return a listing of these topics."""
    fields = {"topics": [{"name": each} for each in topics]}
    return BenchResponse(body=messages.encode(messages.make_response(METADATA.api, fields)))


def test_topics_that_are_not_kept_are_cut() -> None:
    """A listing that stays is forwarded as it is."""
    assert listings.without(METADATA, reply("public-a"), allows=public) is FORWARD
    assert listings.without(METADATA, reply("a", "b"), allows=every) is FORWARD
    verdict = listings.without(METADATA, reply("a", "public-b"), allows=public)
    assert verdict == Replace(reply("public-b").body or b"")


def test_an_id_is_kept_by_its_name() -> None:
    """Without a function that knows names, an id without a name goes."""
    request = BenchRequest(api_of(ApiKey.OFFSET_FETCH, 10))

    def body(*ids: bytes) -> bytes:
        topics = [{"topic_id": each} for each in ids]
        fields = {"groups": [{"group_id": "public-g", "topics": topics}]}
        return messages.encode(messages.make_response(request.api, fields))

    known, secret = b"k" * 16, b"s" * 16
    response = BenchResponse(body=body(known, secret))
    names = {known: "public-k", secret: "s"}
    verdict = listings.without(request, response, allows=public, topic_name=names.get)
    assert verdict == Replace(body(known))
    assert listings.without(request, response, allows=public) == Replace(body())


def test_a_listing_that_cannot_be_read_lists_nothing() -> None:
    """It carries an error where it has a place for one, and names nothing of what was in it."""
    groups = BenchRequest(api_of(ApiKey.LIST_GROUPS, 3))
    verdict = listings.without(groups, BenchResponse(body=b"\0" * 9 + b"secret"), allows=every)
    assert isinstance(verdict, Replace)
    listed = messages.decode_response(groups.api, verdict.body)
    assert messages.value(listed, "error_code", int, 0) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert messages.structs(listed, "groups") == ()


def test_a_reply_without_a_body_is_a_mistake_of_the_policy() -> None:
    """It is never taken for a listing that may pass."""
    with pytest.raises(LookupError, match="hears_body"):
        listings.without(METADATA, BenchResponse(), allows=every)
    heartbeat = BenchRequest(api_of(ApiKey.HEARTBEAT, 4))
    with pytest.raises(LookupError, match="not in LISTED"):
        listings.without(heartbeat, BenchResponse(body=b""), allows=every)
