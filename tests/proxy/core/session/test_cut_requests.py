"""Requests that are not whole in the read in which they begin."""

import pytest

from policies.api import Outcome, Throttle
from proxy.core.memory.announced import FAST_BYTES, SMALL_BYTES
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.session import request_stream
from proxy.core.session.in_flight import KEPT_BYTES
from proxy.core.session.kept_produce import timed_out_body
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.policies import EverySecond, Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.many_partitions import (
    produce_many,
    produce_many_reply,
    produce_many_timed_out,
    topics_of,
)
from tests.support.messages.waiting import asked
from tests.support.model.differential_counts import topic_rows, topics_counted

PREFIX_BYTES = 27
"""Up to the timeout of the requests here: what a plan is found by."""


POLICIES = {
    "none": list,
    "gated": lambda: [EverySecond()],
    "asked": lambda: [Recorder()],
    "told": lambda: [Silent()],
    "throttled": lambda: [Silent(lambda _: Throttle(10))],
}


def cuts_of(number: int) -> list[int]:
    """Return every place in the head of a request and of each of its partitions."""
    data = produce_many(number)
    found, at = set(range(1, 60)), 40
    for _, partitions in topics_of(number):
        for _, records in partitions:
            at = data.index(records, at) if len(records) > 50 else at
            found.update(range(max(1, at - 30), at + 3))
            at += len(records)
    return sorted(cut for cut in {*found, *range(len(data) - 8, len(data))} if cut < len(data))


@pytest.fixture
def general(monkeypatch):
    """Return a list that grows with each read on the general path."""
    reads = []
    real = request_stream.take

    def take(link, *read):
        reads.append(link)
        return real(link, *read)

    monkeypatch.setattr(request_stream, "take", take)
    return reads


@for_each(
    [(number, kind, is_counted) for number in range(4, 8) for kind in POLICIES
     for is_counted in (False, True)]
)  # fmt: skip
def test_a_produce_that_is_cut_anywhere_is_kept_and_counted_as_a_whole_one(
    number, kind, is_counted
):
    """Its bytes pass, each partition can be answered here; policies, usage, topics and traces are told once."""
    book = TopicUsage() if is_counted else None
    engine = make_engine(POLICIES[kind](), keeps_traces=True, sample_every=3, topic_usage=book)
    wire = Wire(engine)
    data, reply = produce_many(number), produce_many_reply(number)
    wire.client(data).broker(reply)
    sent, passed = 1, 0
    for cut in cuts_of(number):
        wire.advance(20)
        wire.client(data[:cut])
        wire.client(data[cut:])
        sent += 1
        assert wire.to_broker[passed:].endswith(data), cut
        passed = len(wire.to_broker)
        (exchange,) = wire.session.queue
        body = timed_out_body(exchange)
        assert body == produce_many_timed_out(number)[8 + (number % 4 > 0) :], cut
        wire.broker(reply)
    assert wire.to_broker == data * sent
    wire.advance(2_000)
    assert wire.session.is_at_rest
    assert sum(row.requests for row in wire.watcher.rows) == sent
    assert sum(row.request_bytes for row in wire.watcher.rows) == len(data) * sent
    if book is not None:
        assert not book.unread
        assert sorted(topic_rows(book)) == topics_counted(data, sent)
    if kind not in {"none", "gated"}:
        (policy,) = [entry.policy for entry in engine.chain.entries]
        assert [outcome for _, outcome in policy.completed] == [Outcome.REPLIED] * sent


@pytest.mark.parametrize("number", range(4, 8))
@pytest.mark.parametrize("kind", ["none", "gated", "asked", "told"])
def test_it_stays_on_the_fast_path_from_its_prefix_on(number, kind, general):
    """So do the reads after it, and its reply."""
    wire = Wire(make_engine(POLICIES[kind](), keeps_traces=True, sample_every=1000))
    data, reply = produce_many(number), produce_many_reply(number)
    wire.client(data).broker(reply)
    for cut in range(PREFIX_BYTES, len(data), 7):
        del general[:]
        wire.client(data[:cut])
        wire.client(data[cut : cut + 5])
        wire.client(data[cut + 5 :] + data)
        assert general == [], cut
        wire.broker(reply * 2)
        assert wire.session.replies is None
        assert not wire.session.queue


@pytest.mark.parametrize("partitions", [2, 300])
def test_only_a_request_of_which_much_is_kept_makes_its_client_crowded(partitions):
    """Small ones are within what uncounted requests may take, whole or cut."""
    data = asked(9, [(b"t", [(index, b"r" * 40) for index in range(partitions)])])
    for chunk in (1 << 20, 1000):
        wire = Wire().client(data, chunk).broker(f.reply(7, b"\0" * 50))
        wire.client(data, chunk)
        (exchange,) = wire.session.queue
        assert (len(exchange.kept) > KEPT_BYTES) == (partitions == 300)
        assert (wire.session.in_flight is not None) == (partitions == 300)


def test_a_large_request_is_announced_and_given_back_on_the_fast_path(general):
    """As on the general path: while it is unfinished it counts for its node; another of its kind waits."""
    pool_limits = PoolLimits(announced_bytes=300_000)
    engine = make_engine(pool_limits=pool_limits)
    first, second = Wire(engine), Wire(engine)
    data = asked(9, [(b"t", [(index, bytes(50_000)) for index in range(4)])])
    for wire in (first, second):
        wire.client(data).broker(produce_many_reply(1).replace(b"\0\0\0\1", b"\0\0\0\7", 1))
    assert len(data) > SMALL_BYTES
    del general[:]

    first.client(data[: 2 * FAST_BYTES])
    assert engine.announced.bytes_of(None) == len(data)
    assert general == []
    second.client(data[: 2 * FAST_BYTES])
    assert second.to_broker == data  # it waits
    del general[:]
    first.client(data[2 * FAST_BYTES :])

    assert general == []
    assert engine.announced.bytes_of(None) == 0 or second.session.request_left
