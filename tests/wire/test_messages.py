"""`wire.messages` converts any API's bodies to objects and back, and raises only WireError."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.heartbeat.v4.response import HeartbeatResponse

from tests.support.kafka_messages import api_of, apis_known, messages_of, name, survives
from wire import messages
from wire.apis import ApiKey
from wire.errors import WireError


@pytest.mark.parametrize("api", apis_known(), ids=name)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_an_encoded_message_is_decoded(api, data):
    """Every API makes the round trip in every version that the codec knows."""
    request = data.draw(messages_of(messages.request_shape(api)))
    assert messages.decode_request(api, bytearray(messages.encode(request))) == request
    response = data.draw(messages_of(messages.response_shape(api)))
    assert messages.decode_response(api, messages.encode(response)) == response


@pytest.mark.parametrize("api", apis_known(), ids=name)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_damage_is_a_wire_error(api, data):
    """An overwritten, cut or lengthened body is decoded or refused, and never ends the process."""
    for shape, decode in (
        (messages.request_shape(api), messages.decode_request),
        (messages.response_shape(api), messages.decode_response),
    ):
        body = bytearray(messages.encode(data.draw(messages_of(shape))))
        places = st.tuples(st.integers(0, len(body) - 1), st.sampled_from([0, 1, 127, 128, 255]))
        for at, byte in data.draw(st.lists(places, max_size=6)) if body else ():
            body[at] = byte
        survives(decode, api, bytes(body))
        survives(decode, api, bytes(body[: data.draw(st.integers(0, len(body)))]))
        assert not survives(decode, api, messages.encode(data.draw(messages_of(shape))) + b"\x00")


def test_a_version_unknown_to_the_codec_is_a_wire_error():
    """Produce v0 is offered but unknown to the codec: it raises WireError, and `is_known` is false."""
    api = api_of(ApiKey.PRODUCE, 0)
    assert not messages.is_known(api)
    for call in (messages.decode_request, messages.decode_response):
        with pytest.raises(WireError, match="Produce v0"):
            call(api, b"")
    assert messages.is_known(api_of(ApiKey.PRODUCE, 3))


def test_a_value_of_the_wrong_kind_is_a_wire_error():
    """A message that cannot be encoded raises WireError, not the codec's own exception."""
    with pytest.raises(WireError):
        messages.encode(HeartbeatResponse(throttle_time="soon", error_code=0))
    with pytest.raises(WireError):
        messages.encode("no message")


def test_the_codec_is_imported_late():
    """Importing `wire.messages` does not import kio, so that start-up does not pay for it."""
    code = "import sys, wire.messages, wire.replies; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_codec_can_be_loaded_ahead_of_the_first_message():
    """`prepare` imports the codec, so that a first refusal does not wait for it (seen in a process of its own)."""
    code = """import sys; from wire import messages; assert "kio" not in sys.modules
messages.prepare(); assert "kio.index" in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)
