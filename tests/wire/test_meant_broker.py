"""Which broker an ApiVersions v5 means: it is read whole, taken out, and refused in the shape of that version."""

import pytest
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec, meant_broker
from wire.apis import ApiKey
from wire.errors import ErrorCode, WireError
from wire.schema import make_message

V5 = api_of(ApiKey.API_VERSIONS, 5)
SHAPE = codec.request_shape(V5)


@for_each([V5], examples=60)
def test_what_a_request_names_is_what_the_codec_reads(api, data):
    """Anywhere in a buffer; without it, the request names no broker, and all else is as before."""
    message = data.draw(messages_of(SHAPE))
    before = data.draw(st.binary(max_size=5))
    buf = bytearray(before + codec.encode(message))
    meant = meant_broker.read(buf, len(before), len(buf))
    cluster_id = None if message.cluster_id is None else message.cluster_id.encode()
    assert (meant.cluster_id, meant.node_id) == (cluster_id, message.node_id)
    assert meant.is_nobody == (cluster_id is None and message.node_id == -1)
    names = {"client_software_name": message.client_software_name,
             "client_software_version": message.client_software_version}  # fmt: skip
    rest = meant_broker.without(buf, len(before), len(buf))
    assert codec.decode_request(api, rest) == make_message(SHAPE, 0, names)


@for_each([V5], examples=20)
def test_a_request_that_ends_too_early_is_malformed(api, data):
    """Wherever it is cut."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    for stop in range(len(body) - 1):  # the last byte is the count of its tags
        with pytest.raises(WireError):
            meant_broker.read(body, 0, stop)


@for_each([ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.INVALID_REQUEST])
def test_a_refusal_is_the_reply_of_a_broker_with_this_code(code):
    """It names no API."""
    shape = codec.response_shape(V5)
    assert codec.decode_response(V5, meant_broker.refusal(code)) == make_message(shape, code)
