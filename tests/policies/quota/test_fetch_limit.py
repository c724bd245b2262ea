"""Fetch under a byte quota: the bounds on max_bytes and min_bytes, and the charge by the reply."""

import pytest

from policies.api import FORWARD, Forward, Hold, Outcome, Patch, Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.fetch_limit import limit_fetch
from policies.testing import BenchRequest, BenchResponse
from policies.testing.watched_calls import reachable_objects
from tests.support.messages.golden import cases
from tests.support.quotas.quota_policies import EPOCH_MS, bench, burst, fetch, peer, released
from wire.apis import ApiKey, find
from wire.fetch import FetchHead, ShareFetchHead

CASE = cases("quota.combine")["fetch-max-bytes-capped-by-quota"]
BIG = CASE["clipped"].to_bytes(4, "big")


def asking(version: int, **head: int) -> BenchRequest:
    api = find(ApiKey.FETCH, version)
    assert api is not None
    return BenchRequest(api, head=FetchHead(max_wait_ms=500, **head))


@pytest.mark.parametrize(("version", "at"), [(4, 4), (12, 4), (15, 0)])
def test_max_bytes_and_min_bytes_are_lowered_to_the_share(version, at):
    """The patches lie over the fields of this version."""
    request = asking(version, min_bytes=CASE["min_bytes"], max_bytes=CASE["max_bytes"])
    assert limit_fetch(request, CASE["clipped"]).patches == (Patch(at + 8, BIG), Patch(at + 4, BIG))


def test_a_smaller_fetch_and_a_request_without_a_fetch_head_are_not_changed():
    """The verdict is the object that comes without a quota."""
    metadata = find(ApiKey.METADATA, 12)
    assert metadata is not None
    assert limit_fetch(asking(12, min_bytes=1, max_bytes=20_000), 20_000) is FORWARD
    assert limit_fetch(asking(12, min_bytes=1), 1e300) is FORWARD
    assert limit_fetch(BenchRequest(metadata), 1) is FORWARD


def test_a_fetch_asks_for_at_least_one_byte():
    """A broker sends a batch for one byte; for 0 it would answer empty for ever."""
    assert limit_fetch(asking(12, min_bytes=0, max_bytes=9), 0.001).patches == (
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


def test_a_fetch_is_limited_to_the_burst_and_charged_by_its_reply():
    """The reply passes whole, with the time until its bytes are paid for as its throttle."""
    made = bench({"user": "alice", "consumer_byte_rate": 1000})
    asked = fetch(made)
    verdict = made.ask(asked, peer())
    assert verdict == Forward((Patch(12, (2000).to_bytes(4, "big")),))
    assert made.reply(asked, 5000, peer=peer()) == Throttle(3000)
    assert isinstance(made.ask(fetch(made), peer(2)), Hold)
    made.advance(3000)
    assert len(made.released) == 1


def test_waiting_fetches_are_spaced_by_the_mean_cost_and_settled():
    """They do not pass all at once; an empty reply returns the charge made beforehand."""
    made = bench({"user": "alice", "consumer_byte_rate": 1000}, burst_seconds=1)
    first = fetch(made)
    made.ask(first, peer())
    made.reply(first, 8000, peer=peer())  # the mean is 1000 now
    asked = [fetch(made) for _ in range(3)]
    for session_id, each in enumerate(asked, 2):
        assert isinstance(made.ask(each, peer(session_id)), Hold)
    made.advance(7000)
    assert [each[1] for each in released(made)] == [asked[0].exchange_id]
    assert made.released[0].verdict == Forward((Patch(12, (333).to_bytes(4, "big")),))
    made.advance(100)
    made.reply(asked[0], 50, peer=peer(2))
    made.advance(0)
    assert [each[1] for each in released(made)] == [each.exchange_id for each in asked[:2]]


def test_fetches_in_flight_share_one_burst():
    """Fifty long polls are answered with one burst together when data comes, not with fifty."""
    made = bench({"user": "alice", "consumer_byte_rate": 1_000_000})
    sessions = range(1, 51)
    polls = {each: fetch(made) for each in sessions}
    for each in sessions:
        made.ask(polls[each], peer(each))
    asked_for = 0
    for each in sessions:  # no data came in time: all of them poll again
        made.reply(polls[each], 100, peer=peer(each))
        polls[each] = fetch(made)
        verdict = made.ask(polls[each], peer(each))
        asked_for += int.from_bytes(verdict.patches[0].data, "big")
    assert asked_for <= 2_000_000
    for each in sessions:
        made.reply(polls[each], 100, peer=peer(each))
    alone = made.ask(fetch(made), peer(1))
    assert alone == Forward((Patch(12, (2_000_000).to_bytes(4, "big")),))


def test_a_disconnect_ends_the_clients_fetches_in_flight():
    """The share of the other clients grows again, and nothing is kept of the session."""
    made = bench({"user": "alice", "consumer_byte_rate": 1_000_000})
    made.ask(fetch(made), peer(3))
    made.disconnect(peer(3))
    kept = reachable_objects(made.policy)
    asked = fetch(made)
    made.ask(asked, peer(1))
    assert made.ask(fetch(made), peer(2)).patches[0].data == (1_000_000).to_bytes(4, "big")
    made.complete(asked, Outcome.DISCONNECTED)
    made.disconnect(peer(1))
    made.disconnect(peer(2))
    assert reachable_objects(made.policy) == kept
    assert made.ask(fetch(made), peer(3)).patches[0].data == (2_000_000).to_bytes(4, "big")


def test_without_a_burst_a_fetch_may_still_ask_for_a_second_s_worth():
    """A limit of one byte would make one reply of each batch."""
    made = bench({"user": "alice", "consumer_byte_rate": 1_000_000}, burst_seconds=0)
    assert made.ask(fetch(made), peer()).patches[0].data == (1_000_000).to_bytes(4, "big")


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_a_share_fetch_is_limited_and_charged_like_a_fetch(enforcement):
    """A share group does not read past its consumer_byte_rate; both enforcements throttle it by its reply."""
    limit = {"user": "alice", "consumer_byte_rate": 1000}
    made = bench(limit, enforcement=enforcement)
    asked = made.request(
        "ShareFetch", fields={"group_id": "g", "member_id": "m", "max_bytes": 1 << 20}
    )
    verdict = made.ask(asked, peer())
    allowed = 2000 if enforcement == "entity" else 10_000
    assert verdict == Forward((Patch(16, allowed.to_bytes(4, "big")),))
    throttled = made.reply(asked, 50_000, peer=peer())
    assert isinstance(throttled, Throttle)
    assert throttled.throttle_time_ms >= 40_000
    (row,) = made.policy.usage(made.now_ms)
    assert (row.key, row.rate) == ("consumer_byte_rate", 5000)


def test_a_quota_that_ends_takes_the_fetches_in_flight_with_it():
    """Their replies are not observed any more, so a later quota does not share its burst with them."""
    made = bench()
    rate = [Change(QuotaEntity("alice"), "consumer_byte_rate", 1000.0)]
    made.policy.change(rate, made.now_ms)
    made.ask(fetch(made), peer(1))
    made.policy.change([rate[0]._replace(value=None)], made.now_ms)
    made.policy.change(rate, made.now_ms)
    alone = made.ask(fetch(made), peer(2))
    assert alone == Forward((Patch(12, (2000).to_bytes(4, "big")),))


def test_a_fetch_that_waits_for_its_bytes_and_then_for_its_request_pays_once():
    """When it is asked again for the second wait, it is neither charged nor counted as in flight again."""
    made = bench({"user": "alice", "request_rate": 1, "consumer_byte_rate": 1000}, burst_seconds=1)
    first = fetch(made)
    made.ask(first, peer(1))
    made.reply(first, 8000, peer=peer(1))  # the mean is 1000 now, and 7000 are owed
    asked = fetch(made)
    assert isinstance(made.ask(asked, peer(2)), Hold)
    made.advance(6999)
    burst(made, 2, peer(3))
    made.advance(1)  # its bytes may pass; the requests have to wait a second
    assert made.released == []
    made.advance(1000)
    (passed,) = made.released
    assert passed.request is asked
    made.reply(asked, 1000, peer=peer(2))  # as charged
    found = made.policy.manager.find("consumer_byte_rate", ("alice", ""))
    assert found.fetches_in_flight == 0
    assert found.pass_ms == EPOCH_MS + 8000


def test_a_fetch_of_a_client_with_a_request_rate_alone_is_not_limited():
    """Another client has a limit of bytes, so that fetches are looked at."""
    made = bench({"user": "alice", "request_rate": 10}, {"user": "bob", "consumer_byte_rate": 1})
    verdicts = [made.ask(fetch(made), peer()) for _ in range(21)]
    assert verdicts == [FORWARD] * 20 + [Throttle(100)]
    assert isinstance(made.ask(fetch(made), peer(2, user="bob")), Forward)


def test_a_reply_without_records_is_not_charged():
    """The policy may be shown more replies than it asks for."""
    made = bench({"user": "alice", "consumer_byte_rate": 1000})
    reply = BenchResponse(size_bytes=1_000_000)
    asked = made.request("Metadata")
    assert made.policy.on_response(asked, reply, peer(), made.now_ms) is FORWARD
    assert list(made.policy.usage(made.now_ms)) == []
