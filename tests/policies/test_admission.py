"""`admission`: the bound, the queue and its order, which request is shed, and which requests are not counted."""

from policies.admission import NEVER_HELD, SHED, Admission, AdmissionConfig
from policies.api import FORWARD, Hold, Need, Outcome, Policy, Reject
from policies.chain import Chain, Entry
from policies.responses import UNKNOWN
from policies.validation import try_convert
from tests.support.core.admitting import Room
from tests.support.messages.every_case import for_each
from wire.apis import ApiKey, name_of
from wire.errors import ErrorCode
from wire.fetch import FetchHead


def test_beyond_the_bound_requests_wait_and_each_completion_admits_one():
    """Equal requests are served first come, first served."""
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
    """The load of one broker says nothing about another's."""
    room = Room()
    for node_id in (1, 2, None):
        room.passes(node_id=node_id)
    for node_id in (1, 2, None):
        room.waits(node_id=node_id)
        assert (room.policy.in_flight(node_id), room.policy.waiting(node_id)) == (1, 1)
    assert (room.policy.in_flight(3), room.policy.waiting(3)) == (0, 0)


def test_the_highest_priority_is_served_first_then_the_earliest():
    """The first rule that fits gives the priority; without one it is 0."""
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


@for_each(list(Outcome))
def test_each_end_of_a_request_frees_its_place(outcome):
    """A reply, an answer of Sluice's, an expiry and a disconnect each admit the next one."""
    room = Room()
    first, second = room.passes(), room.waits()
    room.bench.complete(first, outcome)
    assert room.released() == [(second, FORWARD)]
    assert room.policy.in_flight(1) == 1


def test_a_disconnect_frees_the_place_in_the_queue():
    """The next request does not wait for it, and none is admitted in its stead too early."""
    room = Room()
    first, second, third = room.passes(), room.waits(), room.waits()
    room.leave(second)
    assert room.policy.waiting(1) == 1
    assert room.released() == []
    room.bench.reply(first)
    assert room.released() == [(third, FORWARD)]


def test_no_request_waits_longer_than_is_allowed():
    """At the deadline it is refused; the free place is given to the next, once."""
    room = Room(max_wait_ms=500)
    room.passes()
    waiting = room.waits()
    room.bench.advance(499)
    assert room.released() == []
    room.bench.advance(1)
    assert room.released() == [(waiting, Reject(ErrorCode.THROTTLING_QUOTA_EXCEEDED))]
    assert (room.policy.waiting(1), room.policy.shed) == (0, 1)

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


def test_a_full_queue_sheds_the_lowest_priority_newest_first():
    """A new request is shed itself unless its priority is higher; without a queue it is shed at any priority."""
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

    room = Room(max_queued_requests=0)
    first = room.passes()
    asked, verdict = room.ask(user="vip")
    assert verdict == SHED
    room.bench.complete(asked, Outcome.ANSWERED)
    room.bench.reply(first)
    room.passes()


@for_each(sorted(map(name_of, NEVER_HELD)))
def test_heartbeats_and_authentication_never_wait_and_take_no_place(api):
    """APIs that keep groups alive or authenticate a client are not counted."""
    room = Room()
    room.passes(api)
    running = room.passes()
    room.passes(api)
    room.bench.reply(running)
    assert room.policy.in_flight(1) == 0


def test_requests_that_the_broker_does_not_answer_at_once_take_no_place():
    """A Produce without a reply, and a fetch that may wait unless `count_long_polls` counts it."""
    room = Room()
    room.passes("Produce", acks=0)
    room.passes("Produce", acks=1)
    room.passes("Produce", acks=0)
    room.waits("Produce", acks=-1)

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


def test_only_fetches_are_parsed_and_only_to_find_long_polls():
    """All other requests stream through, judged by their header."""
    hooks = Room().bench.chain.hooks
    assert hooks(ApiKey.FETCH).need is Need.HEAD
    assert hooks(ApiKey.PRODUCE).need is Need.HEADER
    assert hooks(ApiKey.HEARTBEAT).on_request is None
    assert Room(count_long_polls=True).bench.chain.hooks(ApiKey.FETCH).need is Need.HEADER


def test_a_reload_keeps_the_counts_and_a_larger_bound_holds_at_once():
    """The places of requests in flight are freed in the successor."""
    room = Room()
    first, second, third = room.passes(), room.waits(), room.waits()
    config = AdmissionConfig(max_in_flight_requests_per_node=2)
    after = Admission(config, room.bench.host)
    after.adopt(room.policy)
    assert room.released() == [(second, FORWARD)]
    assert (after.in_flight(1), after.waiting(1)) == (2, 1)
    after.on_complete(first, Outcome.REPLIED, room.bench.peer, UNKNOWN, 0)
    assert room.released() == [(third, FORWARD)]
    after.adopt(Policy({}, room.bench.host))  # of another kind: nothing to take over
    assert after.in_flight(1) == 2


def test_each_request_that_fails_when_woken_admits_the_next():
    """A later policy may raise about each; the queue is walked in a loop, not by recursion."""
    room = Room(max_queued_requests=5000)
    first = room.passes()
    line = [room.waits() for _ in range(5000)]
    woken = []

    def wake(key):
        request = line[len(woken)]
        woken.append(key)
        assert room.policy.on_request(request, room.bench.peer, 0) is FORWARD
        room.policy.on_complete(request, Outcome.DISCONNECTED, room.bench.peer, UNKNOWN, 0)
        return 1

    room.bench.host.on_wake = wake
    room.bench.reply(first)
    assert len(woken) == len(line)
    assert (room.policy.in_flight(1), room.policy.waiting(1)) == (0, 0)


def test_in_mode_observe_the_counts_stay_right():
    """No request really waits, so none is queued."""
    room = Room(max_queued_requests=1)
    chain = Chain([Entry("observed", room.policy, mode="observe")], room.bench.reporter)
    hooks = chain.hooks(ApiKey.METADATA)
    requests = [room.bench.request("Metadata") for _ in range(4)]
    for request in requests:
        assert hooks.on_request(request, room.bench.peer, 0) is FORWARD
    assert [type(each) for _, each in room.bench.reporter.observed] == [Hold, Reject, Reject]
    for request in requests:
        hooks.on_complete(request, Outcome.REPLIED, room.bench.peer, UNKNOWN, 0)
        assert (room.policy.in_flight(1), room.policy.waiting(1)) == (0, 0)
    room.passes()
    room.waits()


def test_rules_that_fit_no_request_are_mistakes():
    """Each is named by its path."""
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
