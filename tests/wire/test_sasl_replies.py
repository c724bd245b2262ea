"""The replies of a SASL server are those that the codec reads, and that Sluice reads as an observer."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.kafka_messages import api_of
from wire import codec, sasl, versions
from wire.apis import OFFERED, ApiKey
from wire.errors import ErrorCode
from wire.sasl import authenticate_body, handshake_body

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
LIFETIME_MS = st.integers(0, 2**40)


@pytest.mark.parametrize("version", [0, 1])
@given(code=st.sampled_from([0, 33, 34]), mechanisms=st.lists(TEXT, max_size=4))
def test_a_handshake_reply_is_read_by_the_codec(
    version: int, code: int, mechanisms: list[str]
) -> None:
    """The code and the mechanisms, in order."""
    body = handshake_body(code, mechanisms)
    reply = codec.decode_response(api_of(ApiKey.SASL_HANDSHAKE, version), body)

    assert reply.error_code == code  # type: ignore[attr-defined]
    assert list(reply.mechanisms) == mechanisms  # type: ignore[attr-defined]
    assert sasl.handshake_error(body) == code


@pytest.mark.parametrize("version", [0, 1, 2])
@given(token=st.binary(max_size=300), lifetime_ms=LIFETIME_MS)
def test_a_success_is_read_by_the_codec(version: int, token: bytes, lifetime_ms: int) -> None:
    """The token and, from v1 on, the lifetime of the session."""
    body = authenticate_body(version, token, lifetime_ms)
    reply = codec.decode_response(api_of(ApiKey.SASL_AUTHENTICATE, version), body)

    assert (reply.error_code, reply.error_message) == (0, None)  # type: ignore[attr-defined]
    assert reply.auth_bytes == token  # type: ignore[attr-defined]
    assert sasl.authenticate_reply(body, version) == (0, token, lifetime_ms if version else 0)


@pytest.mark.parametrize("version", [0, 1, 2])
@given(message=TEXT)
def test_a_failure_is_read_by_the_codec(version: int, message: str) -> None:
    """The code and the message; the token is empty, not null."""
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    body = authenticate_body(version, error_code=code, message=message)
    reply = codec.decode_response(api_of(ApiKey.SASL_AUTHENTICATE, version), body)

    assert (reply.error_code, reply.error_message) == (code, message)  # type: ignore[attr-defined]
    assert reply.auth_bytes == b""  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [0, 3, 4])
@pytest.mark.parametrize("broker_has_it", [True, False])
def test_an_api_that_sluice_answers_is_offered_with_any_broker(
    version: int, *, broker_has_it: bool
) -> None:
    """With Sluice's own range, once; other keys stay as they are."""
    flexible = version >= 3
    ranges = [(0, 3, 9), (36, 0, 1)] if broker_has_it else [(0, 3, 9)]
    tags = b"\x00" if flexible else b""
    listed = b"".join(pack(">hhh", *each) + tags for each in ranges)
    count = bytes([len(ranges) + 1]) if flexible else pack(">i", len(ranges))
    rest = (bytes(4) if version else b"") + tags
    body = b"\0\0" + count + listed + rest
    narrowed = versions.narrow(body, 0, len(body), version, OFFERED, served=frozenset({17, 36}))
    expected = b"".join(pack(">hhh", *each) + tags for each in [(0, 3, 9), (17, 1, 1), (36, 0, 2)])
    count = bytes([4]) if flexible else pack(">i", 3)
    assert narrowed == b"\0\0" + count + expected + rest
