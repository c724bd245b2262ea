"""Enforcement `entity`: how Fetch is limited by its reply, which is charged when it comes."""

import pytest

from policies.api import Forward, Hold, Outcome, Patch, Throttle
from tests.support.quotas.quota_policies import bench, fetch, peer, released


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
    """The share of the other clients grows again."""
    made = bench({"user": "alice", "consumer_byte_rate": 1_000_000})
    made.ask(fetch(made), peer(1))
    assert made.ask(fetch(made), peer(2)).patches[0].data == (1_000_000).to_bytes(4, "big")
    made.disconnect(peer(1))
    made.disconnect(peer(2))
    assert made.ask(fetch(made), peer(3)).patches[0].data == (2_000_000).to_bytes(4, "big")


def test_without_a_burst_a_fetch_may_still_ask_for_a_second_s_worth():
    """A limit of one byte would make one reply of each batch."""
    made = bench({"user": "alice", "consumer_byte_rate": 1_000_000}, burst_seconds=0)
    assert made.ask(fetch(made), peer()).patches[0].data == (1_000_000).to_bytes(4, "big")


def test_a_disconnect_forgets_the_charges_of_its_fetches():
    """No state of an ended session is kept."""
    made = bench({"user": "alice", "consumer_byte_rate": 1000})
    asked = fetch(made)
    made.ask(asked, peer())
    made.complete(asked, Outcome.DISCONNECTED)
    made.disconnect(peer())
    assert made.policy.rule._fetches == {}


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
