"""The topics of a Produce that were read for a policy are kept as those of a walk."""

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec, produce_partitions
from wire.apis import ApiKey
from wire.errors import WireError
from wire.produce import ProduceWalker, read_acks
from wire.request_names import read_names
from wire.topic_refs import TopicRef

VERSIONS = range(3, 14)


@for_each(VERSIONS, examples=60)
def test_topics_that_were_read_for_a_policy_are_packed_the_same(version, data):
    """Any body that the codec can write, with a byte changed or not: what both readers take, they pack alike."""
    api = api_of(ApiKey.PRODUCE, version)
    body = bytearray(codec.encode(data.draw(messages_of(codec.request_shape(api)))))
    changed = data.draw(st.booleans())
    if changed:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    buf, stop = body + b"\x00\x02\x07" * 30, len(body)
    try:
        packed = produce_partitions.pack_refs(read_names(api, buf, 0, stop, {}).topics)
    except WireError:
        walker = ProduceWalker(version)
        if not changed:
            walker.feed(body, 0, stop)
        assert changed or not walker.topics or not all(each for _, each in walker.topics)
        return
    read = read_acks(buf, 0, stop, version)
    try:
        assert read is not None or changed
        if read is not None:
            found = produce_partitions.pack_topics(buf, read[1] + 4, stop, version)
            assert found[0] == packed
    except WireError:  # it refuses more: bytes that follow the last field
        assert changed


@pytest.mark.parametrize("refs", [[], [TopicRef(None, None, (1,))], [TopicRef("t", None, ())]])
def test_what_may_be_malformed_is_not_packed(refs):
    """The broker judges a request without topics, names or partitions."""
    with pytest.raises(WireError, match=r"name is null|has no"):
        produce_partitions.pack_refs(refs)
