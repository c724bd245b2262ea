"""The answer of a broker to ApiVersions: read in any pieces, repeated without its throttle time, compared by ranges."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import BrokerProtocolError
from proxy.core.versions_lookup import (
    MAX_ANSWER_BYTES,
    KnownVersions,
    VersionsLookup,
    VersionsQuestion,
    own_question,
    take_question,
)
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from wire import codec, header
from wire.schema import make_message

METADATA, HEARTBEAT, SASL_HANDSHAKE = 3, 12, 17
QUESTION = VersionsQuestion(f.request(f.API_VERSIONS, 1, 7), 1, 7)


def answer(throttle_ms: int = 0) -> bytes:
    """Return a broker's reply to version 1."""
    ranges = struct.pack(">i6h", 2, METADATA, 0, 12, HEARTBEAT, 0, 4)
    return f.reply(7, b"\0\0" + ranges + struct.pack(">i", throttle_ms))


@given(st.lists(st.integers(0, 60), max_size=6), st.integers(0, 2**31 - 1))
def test_an_answer_is_read_in_any_pieces(cuts, throttle_ms):
    """And repeated to others for their own requests, without the throttle time."""
    data = answer(throttle_ms)
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    lookup = VersionsLookup(QUESTION)
    for start, stop in pairwise(places):
        assert lookup.known is None
        lookup.feed(data[start:stop])
    assert lookup.known is not None
    assert lookup.known.ranges == {METADATA: (0, 12), HEARTBEAT: (0, 4)}
    assert lookup.known.reply_to(QUESTION) == answer()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 3),
        struct.pack(">i", MAX_ANSWER_BYTES + 1),
        struct.pack(">i", -1),
        f.reply(7, b"\0\0\0\0\0\x09"),
        f.reply(7, b"\0"),
        answer()[:3] + bytes([answer()[3] - 1]) + answer()[4:-1],
    ],
)
def test_a_malformed_answer_is_the_brokers_fault(data):
    """Nothing is kept of it."""
    lookup = VersionsLookup(QUESTION)
    with pytest.raises(BrokerProtocolError):
        lookup.feed(data)
    assert lookup.known is None


@given(st.lists(st.integers(1, 20), max_size=20))
def test_questions_are_taken_when_they_are_whole(sizes):
    """Several may lie in the bytes of one client."""
    data = QUESTION.frame + f.request(f.API_VERSIONS, 0, 8)
    received = bytearray()
    taken = []
    for size in [*sizes, len(data)]:
        received += data[:size]
        data = data[size:]
        while (question := take_question(received)) is not None:
            taken.append(question)
    assert taken == [QUESTION, VersionsQuestion(f.request(f.API_VERSIONS, 0, 8), 0, 8)]
    assert not received


@pytest.mark.parametrize("version", range(6))
def test_the_own_question_is_a_request_of_its_version_that_names_no_broker(version):
    """It has the name and version of software that brokers accept, from v3 on."""
    api = api_of(f.API_VERSIONS, version)
    question = own_question(version)
    assert take_question(bytearray(question.frame)) == question
    body_at = header.body_at(question.frame, 0, len(question.frame), api.request_header_version)
    names = {"client_software_name": "sluice", "client_software_version": "1"}
    shape = codec.request_shape(api)
    assert codec.decode_request(api, question.frame[body_at:]) == make_message(
        shape, 0, names if version >= 3 else {}
    )


def test_a_question_is_taken_without_the_broker_that_it_means():
    """All else stays: the broker is told which software its client is."""
    api = api_of(f.API_VERSIONS, 5)
    software = {"client_software_name": "lib", "client_software_version": "1.0"}
    for named in ({"cluster_id": "c", "node_id": 3}, {}):
        body = codec.encode(make_message(codec.request_shape(api), 0, software | named))
        question = take_question(bytearray(f.request(api.key, 5, 7, body, tagged=True)))
        plain = codec.encode(make_message(codec.request_shape(api), 0, software))
        assert question == VersionsQuestion(f.request(api.key, 5, 7, plain, tagged=True), 5, 7)


def test_another_request_is_no_question():
    """The session lets none pass before the login; if one comes, it is a fault of ours."""
    with pytest.raises(ValueError, match="API 12"):
        take_question(bytearray(f.heartbeat(1)))


@pytest.mark.parametrize(
    ("told", "has", "less"),
    [
        ({HEARTBEAT: (0, 4)}, {HEARTBEAT: (0, 4)}, False),
        ({HEARTBEAT: (0, 4)}, {HEARTBEAT: (0, 9)}, False),
        ({HEARTBEAT: (0, 99)}, {HEARTBEAT: (0, 50)}, False),  # Sluice offers neither
        ({HEARTBEAT: (0, 4)}, {HEARTBEAT: (0, 3)}, True),
        ({HEARTBEAT: (0, 4)}, {HEARTBEAT: (1, 4)}, True),
        ({HEARTBEAT: (0, 4)}, {}, True),
        ({999: (0, 4)}, {}, False),
        ({SASL_HANDSHAKE: (0, 1)}, {}, False),  # Sluice answers it itself
    ],
)
def test_a_broker_says_less_if_a_client_may_use_what_it_lacks(told, has, less):
    """Only versions that Sluice offers count."""
    rewrites = make_engine().rewrites
    rewrites.served = frozenset({SASL_HANDSHAKE})
    assert KnownVersions(b"", has).says_less_than(KnownVersions(b"", told), rewrites) is less
