"""The bounds on a Fetch's max_bytes and min_bytes under a byte quota."""

import pytest

from policies.api import FORWARD, Patch
from policies.quota.fetch_limit import limit_fetch
from policies.testing import BenchRequest
from tests.support.messages.golden import cases
from wire.apis import ApiKey, find
from wire.fetch import FetchHead
from wire.share_fetch import ShareFetchHead

CASE = cases("quota.combine")["fetch-max-bytes-capped-by-quota"]
BIG = CASE["clipped"].to_bytes(4, "big")


def fetch(version: int, **head: int) -> BenchRequest:
    api = find(ApiKey.FETCH, version)
    assert api is not None
    return BenchRequest(api, head=FetchHead(max_wait_ms=500, **head))


@pytest.mark.parametrize(("version", "at"), [(4, 4), (12, 4), (15, 0)])
def test_max_bytes_and_min_bytes_are_lowered_to_the_share(version, at):
    """The patches lie over the fields of this version."""
    request = fetch(version, min_bytes=CASE["min_bytes"], max_bytes=CASE["max_bytes"])
    assert limit_fetch(request, CASE["clipped"]).patches == (Patch(at + 8, BIG), Patch(at + 4, BIG))


def test_a_smaller_fetch_is_not_changed():
    """The verdict is the object that comes without a quota."""
    assert limit_fetch(fetch(12, min_bytes=1, max_bytes=20_000), 20_000) is FORWARD
    assert limit_fetch(fetch(12, min_bytes=1), 1e300) is FORWARD


def test_a_fetch_asks_for_at_least_one_byte():
    """A broker sends a batch for one byte; for 0 it would answer empty for ever."""
    assert limit_fetch(fetch(12, min_bytes=0, max_bytes=9), 0.001).patches == (
        Patch(12, b"\0\0\0\1"),
    )


def test_a_share_fetch_is_lowered_where_its_names_end():
    """Kafka lowers both of its fields, too (KafkaApis.handleShareFetchRequest)."""
    api = find(ApiKey.SHARE_FETCH, 1)
    assert api is not None
    head = ShareFetchHead(500, 9_000, 50_000, min_bytes_at=52, max_bytes_at=56)
    request = BenchRequest(api, head=head)
    lowered = (1000).to_bytes(4, "big")
    assert limit_fetch(request, 1000).patches == (Patch(56, lowered), Patch(52, lowered))
    assert limit_fetch(request, 50_000) is FORWARD


def test_a_request_without_a_fetch_head_is_not_changed():
    """Other APIs have none."""
    api = find(ApiKey.METADATA, 12)
    assert api is not None
    assert limit_fetch(BenchRequest(api), 1) is FORWARD
