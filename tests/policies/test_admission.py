"""`admission`: the bound, the line and its order, who is shed, and what is never counted."""

from __future__ import annotations

import pytest

from policies.admission import NEVER_HELD, SHED, Admission, AdmissionConfig
from policies.api import FORWARD, Hold, Need, Outcome, Policy, PolicyConfigError, Reject
from policies.chain import Chain, Entry
from policies.testing import BenchHost
from policies.validation import try_convert
from tests.support.admitting import Room
from wire.apis import ApiKey, name_of
from wire.errors import ErrorCode
from wire.fetch import FetchHead


def test_beyond_the_bound_requests_wait_and_each_that_completes_lets_one_in():
    """First come, first served, among equals."""
    room = Room(in_flight=2)
    first, second = room.passes(), room.passes()
    third, fourth = room.waits(), room.waits()
    assert (room.policy.in_flight(1), room.policy.waiting(1)) == (2, 2)

    room.bench.reply(second)
    assert room.released() == [(third, FORWARD)]
    room.bench.reply(first)
    assert room.released() == [(fourth, FORWARD)]
    assert (room.policy.in_flight(1), room.policy.waiting(1)) == (2, 0)

    room.bench.reply(third)
    room.bench.reply(fourth)
    assert room.policy.in_flight(1) == 0


def test_each_broker_has_its_own_places_and_so_has_the_bootstrap_port():
    """What one broker cannot take says nothing about another."""
    room = Room()
    for node_id in (1, 2, None):
        room.passes(node_id=node_id)
    for node_id in (1, 2, None):
        room.waits(node_id=node_id)
        assert (room.policy.in_flight(node_id), room.policy.waiting(node_id)) == (1, 1)
    assert (room.policy.in_flight(3), room.policy.waiting(3)) == (0, 0)


def test_the_most_important_goes_first_then_who_came_first():
    """The first rule that fits says how important; what none speaks of has 0."""
    room = Room()
    running = room.passes()
    batch = room.waits(client_id="batch")
    plain = room.waits()
    metadata = room.waits("Metadata", client_id="c")
    slow = room.waits(user="vip", client_id="slow")
    vip, vip_too = room.waits(user="vip", client_id="batch"), room.waits(user="vip")
    order = [vip, vip_too, metadata, slow, plain, batch]
    for expected in order:
        room.bench.reply(running)
        assert room.released() == [(expected, FORWARD)]
        running = expected


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_place_comes_back_however_the_request_ended(outcome):
    """Replied, answered here, expired, disconnected: the next one goes in."""
    room = Room()
    first, second = room.passes(), room.waits()
    room.bench.complete(first, outcome)
    assert room.released() == [(second, FORWARD)]
    assert room.policy.in_flight(1) == 1


def test_who_hangs_up_while_waiting_gives_back_its_place_in_the_line():
    """The next one is not kept waiting for it, and nobody goes in in its stead too early."""
    room = Room()
    first, second, third = room.passes(), room.waits(), room.waits()
    room.leave(second)
    assert room.policy.waiting(1) == 1
    assert room.released() == []
    room.bench.reply(first)
    assert room.released() == [(third, FORWARD)]


def test_nobody_waits_longer_than_is_allowed():
    """At the deadline it is refused, and its place in the line is free."""
    room = Room(max_wait_ms=500)
    room.passes()
    waiting = room.waits()
    room.bench.advance(499)
    assert room.released() == []
    room.bench.advance(1)
    assert room.released() == [(waiting, Reject(ErrorCode.THROTTLING_QUOTA_EXCEEDED))]
    assert (room.policy.waiting(1), room.policy.shed) == (0, 1)


def test_one_whose_time_was_just_up_is_passed_over():
    """Refused, but not gone yet: the place that is free goes to the next one, once."""
    room = Room(max_wait_ms=500)
    first = room.passes()
    late = room.waits()
    room.bench.advance(400)
    in_time = room.waits()
    room.bench.advance(100)
    room.bench.reply(first)  # `late` has its verdict, and has not completed
    assert [each.request for each in room.bench.released] == [late, in_time]
    assert room.policy.in_flight(1) == 1
    room.released()
    assert (room.policy.in_flight(1), room.policy.waiting(1)) == (1, 0)
    room.bench.reply(in_time)
    assert room.policy.in_flight(1) == 0


def test_a_full_line_sheds_the_least_important_newest_first():
    """Whoever comes is shed itself unless it is more important than somebody who waits."""
    room = Room(max_queued_requests=2)
    running = room.passes()
    early, late = room.waits(), room.waits()
    assert room.ask()[1] == SHED
    assert room.ask(client_id="batch")[1] == SHED
    vip = room.waits(user="vip")
    assert room.released() == [(late, SHED)]
    vip_too = room.waits(user="vip")
    assert room.released() == [(early, SHED)]
    assert room.ask("Metadata")[1] == SHED
    assert room.policy.shed == 5
    room.bench.reply(running)
    room.bench.reply(vip)
    assert room.released() == [(vip, FORWARD), (vip_too, FORWARD)]


def test_a_line_of_no_length_keeps_nobody_waiting():
    """max_queued_requests 0: what cannot go on at once is shed, however important."""
    room = Room(max_queued_requests=0)
    first = room.passes()
    asked, verdict = room.ask(user="vip")
    assert verdict == SHED
    room.bench.complete(asked, Outcome.ANSWERED)
    room.bench.reply(first)
    room.passes()


@pytest.mark.parametrize("api", sorted(map(name_of, NEVER_HELD)))
def test_what_keeps_groups_alive_never_waits_and_takes_no_place(api):
    """Nor what a client signs on with."""
    room = Room()
    room.passes(api)
    running = room.passes()
    room.passes(api)
    room.bench.reply(running)
    assert room.policy.in_flight(1) == 0


def test_a_produce_without_acks_takes_no_place():
    """It has no reply, so nobody could say when to give the place back."""
    room = Room()
    room.passes("Produce", acks=0)
    room.passes("Produce", acks=1)
    room.passes("Produce", acks=0)
    room.waits("Produce", acks=-1)


def test_a_long_poll_takes_no_place_unless_configured():
    """A fetch that may not wait is work like any other; one that may costs nothing while it waits."""
    poll, at_once = FetchHead(500, 1), (FetchHead(0, 1), FetchHead(500, 0))
    for head in at_once:
        room = Room()
        room.passes("Fetch", head=head)
        room.waits("Fetch", head=head)
        room.passes("Fetch", head=poll)
        room.passes("ShareFetch")
    room = Room(count_long_polls=True)
    room.passes("Fetch", head=poll)
    room.waits("Fetch", head=poll)
    room.waits("ShareFetch")


def test_it_looks_into_fetches_alone_and_only_to_tell_long_polls():
    """Everything else streams through, judged by its header."""
    hooks = Room().bench.chain.hooks
    assert hooks(ApiKey.FETCH).need is Need.HEAD
    assert hooks(ApiKey.PRODUCE).need is Need.HEADER
    assert hooks(ApiKey.HEARTBEAT).on_request is None
    assert Room(count_long_polls=True).bench.chain.hooks(ApiKey.FETCH).need is Need.HEADER


def test_a_reload_keeps_the_books_and_a_larger_bound_holds_at_once():
    """What is in flight was let in before; what it gives back is the successor's to give away."""
    room = Room()
    first, second, third = room.passes(), room.waits(), room.waits()
    config = AdmissionConfig(max_in_flight_requests_per_node=2)
    after = Admission(config, room.bench.host)
    after.adopt(room.policy)
    assert room.released() == [(second, FORWARD)]
    assert (after.in_flight(1), after.waiting(1)) == (2, 1)
    after.on_complete(first, Outcome.REPLIED, 0)
    assert room.released() == [(third, FORWARD)]
    after.adopt(Policy({}, room.bench.host))  # of another kind: nothing to take over
    assert after.in_flight(1) == 2


def test_however_many_fail_as_they_are_woken_each_gives_way_to_the_next():
    """A policy behind this one may raise about each; the line is walked, not climbed."""
    room = Room(max_queued_requests=5000)
    first = room.passes()
    line = [room.waits() for _ in range(5000)]
    woken = []

    def wake(key):
        request = line[len(woken)]
        woken.append(key)
        assert room.policy.on_request(request, room.bench.peer, 0) is FORWARD
        room.policy.on_complete(request, Outcome.DISCONNECTED, 0)
        return 1

    room.bench.wake = wake
    room.bench.reply(first)
    assert len(woken) == len(line)
    assert (room.policy.in_flight(1), room.policy.waiting(1)) == (0, 0)


def test_in_mode_observe_the_books_stay_straight():
    """Nobody really waits, so nobody is there to be woken: nothing is kept for them."""
    room = Room(max_queued_requests=1)
    chain = Chain([Entry("observed", room.policy, mode="observe")], room.bench.reporter)
    hooks = chain.hooks(ApiKey.METADATA)
    requests = [room.bench.request("Metadata") for _ in range(4)]
    for request in requests:
        assert hooks.on_request(request, room.bench.peer, 0) is FORWARD
    assert [type(each) for _, each in room.bench.reporter.observed] == [Hold, Reject, Reject]
    for request in requests:
        hooks.on_complete(request, Outcome.REPLIED, 0)
        assert (room.policy.in_flight(1), room.policy.waiting(1)) == (0, 0)
    room.passes()
    room.waits()


def test_rules_for_nobody_and_for_what_never_waits_are_mistakes():
    """Each is named with its place."""
    rules = [
        {"level": 1},
        {"api": "Heartbeat", "level": 1},
        {"api": "Prodcue", "level": 1},
        {"user": "a", "level": 1001},
        {"user": "a"},
    ]
    data = {"max_in_flight_requests_per_node": 0, "importance": rules}
    _, problems = try_convert(AdmissionConfig, data, "")
    assert [(each.path, each.nearest) for each in problems] == [
        ("max_in_flight_requests_per_node", ""),
        ("importance[0]", ""),
        ("importance[1].api", ""),
        ("importance[2].api", "Produce"),
        ("importance[3].level", ""),
        ("importance[4].level", ""),
    ]


def test_settings_of_somebody_else_are_refused():
    """The registry hands over what `Config` made."""
    with pytest.raises(PolicyConfigError, match="AdmissionConfig"):
        Admission({"max_in_flight_requests_per_node": 1}, BenchHost())
