"""The place of throttle_time_ms in every response, compared with kio."""

import dataclasses
import datetime as dt
import io
from struct import pack
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer

from tests.support.messages.every_case import for_each
from tests.support.messages.golden import cases
from wire import throttle
from wire.apis import Api, ApiKey, ThrottleField, known
from wire.errors import WireError

SPEC_MS = 0x01020304

KIO = [
    api
    for key, name in sorted(api_key_map.items())
    for version in sorted(schema_name_map[name])
    if (api := known(key, version)) is not None
]
WALKED = [api for api in KIO if api.throttle is ThrottleField.LAST]
SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=10)


def frame(api: Api, entity: Any) -> bytearray:
    """Return the whole response frame, its body encoded by kio."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    rest = pack(">i", 7) + b"\x00" * api.response_header_version + out.getvalue()
    return bytearray(pack(">i", len(rest)) + rest)


def throttled(entity: Any, milliseconds: int) -> Any:
    """Return the same response with another throttle time, set in kio's field."""
    delay = dt.timedelta(milliseconds=milliseconds)
    return dataclasses.replace(entity, throttle_time=delay)


@pytest.mark.parametrize("api", WALKED, ids=lambda api: f"{api.name}-v{api.version}")
@SLOW
@given(data=st.data())
def test_bodies_are_walked_to_a_field_at_their_end(api: Api, data: st.DataObject) -> None:
    """Stamping the bytes equals setting kio's field before encoding, and changes nothing else."""
    schema = load_response_schema(api.key, api.version)
    entity = data.draw(st.from_type(schema).filter(lambda e: not is_v0_shaped(api, e)))
    zero, ours = frame(api, throttled(entity, 0)), frame(api, throttled(entity, SPEC_MS))
    buf = bytearray(b"???" + zero + b"???")
    assert throttle.stamp(buf, 3, 3 + len(zero), api, SPEC_MS) == SPEC_MS
    assert buf[3:-3] == ours
    assert buf[:3] == buf[-3:] == b"???"


@given(
    api=st.sampled_from(
        [api for api in KIO if api.throttle in {ThrottleField.FIRST, ThrottleField.FIXED}]
    ),
    tags=st.sampled_from([b"\x00", b"\x02\x00\x01?\x07\x00"]),
    rest=st.binary(max_size=40),
)
def test_a_field_at_a_fixed_place_is_stamped_there(api: Api, tags: bytes, rest: bytes) -> None:
    """The field lies at the table's offset after the header, with header tags of any length (kio confirms it)."""
    head = pack(">i", 7) + tags * api.response_header_version
    before = head + bytes(api.throttle_offset or 0)
    buf = bytearray(pack(">i", len(before) + 4 + len(rest)) + before + bytes(4) + rest)
    assert throttle.stamp(buf, 0, len(buf), api, SPEC_MS) == SPEC_MS
    assert buf[4:] == before + pack(">i", SPEC_MS) + rest


def is_v0_shaped(api: Api, entity: Any) -> bool:
    """Error 35 of ApiVersions has the v0 layout in every version, which kio does not know."""
    return api.key == ApiKey.API_VERSIONS and entity.error_code == KioErrorCode.unsupported_version


@for_each([case for case in cases("wire") if "hex" in cases("wire")[case] and "hdr" not in case])
def test_throttle_time_lies_where_kafka_puts_it(case_id: str) -> None:
    """Frames written down byte by byte give the offset and the value at it."""
    case = cases("wire")[case_id]
    api = known(case["api_key"], case["api_version"])
    assert api is not None
    data = bytes.fromhex(case["hex"])
    found = throttle.throttle_at(data, 0, len(data), api)
    assert found == case.get("throttle_at")
    if found is not None:
        assert int.from_bytes(data[found : found + 4], "big") == SPEC_MS


def test_the_larger_of_both_throttle_times_is_kept() -> None:
    """A value beyond int32 is cut; a reply without the field stays as it is."""
    api = known(ApiKey.HEARTBEAT, 4)
    assert api is not None
    buf = bytearray.fromhex(cases("wire")["wire-heartbeat-v4"]["hex"])
    before = bytes(buf)
    assert throttle.stamp(buf, 0, len(buf), api, SPEC_MS - 1) == SPEC_MS
    assert buf == before
    assert throttle.stamp(buf, 0, len(buf), api, 2**40) == 2**31 - 1
    assert buf[9:13] == b"\x7f\xff\xff\xff"

    api = known(ApiKey.SASL_HANDSHAKE, 1)
    assert api is not None
    buf = bytearray.fromhex("0000000a 00000007 0000 00000000")
    before = bytes(buf)
    assert throttle.stamp(buf, 0, len(buf), api, 100) == 0
    assert buf == before


def test_a_field_near_the_front_is_stamped_before_the_rest_is_here() -> None:
    """A reply that streams is stamped from its first bytes; a field that has not arrived yet is an error."""
    api = known(ApiKey.FETCH, 4)
    assert api is not None
    buf = bytearray(pack(">iii", 5000, 7, 3) + b"old bytes")
    assert throttle.stamp(buf, 0, 12, api, SPEC_MS) == SPEC_MS
    assert buf == pack(">iii", 5000, 7, SPEC_MS) + b"old bytes"
    with pytest.raises(WireError):
        throttle.stamp(buf, 0, 11, api, SPEC_MS)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_produce_reply_that_goes_on_after_its_last_field_is_refused(partitions: int) -> None:
    """The field lies before the last tag section, whether the reply is walked or recognised."""
    api = known(ApiKey.PRODUCE, 9)
    assert api is not None
    body = b"\x02\x06topic" + bytes([partitions + 1])
    body += (pack(">ihqqq", 0, 0, 17, -1, 0) + b"\x01\x00\x00") * partitions
    body += b"\x00" + bytes(4) + b"\x00"
    buf = bytearray(pack(">iix", 5 + len(body), 7) + body)
    assert throttle.throttle_at(buf, 0, len(buf), api) == len(buf) - 5
    longer = bytearray(pack(">iix", 6 + len(body), 7) + body + b"\x00")
    with pytest.raises(WireError, match="1 bytes follow"):
        throttle.throttle_at(longer, 0, len(longer), api)


@given(
    api=st.sampled_from([api for api in KIO if api.throttle is not ThrottleField.ABSENT]),
    size=st.none() | st.integers(-(2**31), 2**31 - 1),
    rest=st.binary(max_size=120),
    behind=st.binary(max_size=20),
)
def test_any_bytes_give_an_offset_inside_the_frame_or_a_wire_error(
    api: Api, size: int | None, rest: bytes, behind: bytes
) -> None:
    """The bytes after the frame do not change the outcome."""
    data = pack(">i", len(rest) if size is None else size) + rest
    found = outcome(data, len(data), api)
    assert outcome(data + behind, len(data), api) == found
    if found is not None:
        assert 8 <= found <= len(data) - 4


@pytest.mark.parametrize("api", WALKED, ids=lambda api: f"{api.name}-v{api.version}")
@SLOW
@given(data=st.data())
def test_mutated_responses_give_an_offset_or_a_wire_error(api: Api, data: st.DataObject) -> None:
    """One flipped byte of a real response causes no other exception and no offset outside the frame."""
    schema = load_response_schema(api.key, api.version)
    buf = frame(api, data.draw(st.from_type(schema)))
    buf[data.draw(st.integers(4, len(buf) - 1))] = data.draw(st.integers(0, 255))
    found = outcome(bytes(buf), len(buf), api)
    if found is not None:
        assert 8 <= found <= len(buf) - 4


def outcome(data: bytes, end: int, api: Api) -> int | None:
    """Return the offset, or None for no field and for a WireError; any other exception escapes."""
    try:
        return throttle.throttle_at(data, 0, end, api)
    except WireError:
        return None


@given(
    api=st.sampled_from(KIO),
    data=st.one_of(
        st.binary(max_size=90),
        st.sampled_from([bytes.fromhex(c["hex"]) for c in cases("wire").values() if "hex" in c]),
    ),
    cut=st.integers(0, 12),
    time_ms=st.sampled_from([0, 1, SPEC_MS, 2**40]),
)
@example(api=known(1, 4), data=bytes(12), cut=0, time_ms=0)  # its size says that it has no header
def test_a_stamper_does_what_stamp_does(api: Api, data: bytes, cut: int, time_ms: int) -> None:
    """Same bytes, same result, same error, for usual replies and for garbage."""

    def outcome(act: Any) -> object:
        buf = bytearray(b"??" + data + bytes(20))
        try:
            return act(buf, 2, 2 + max(0, len(data) - cut)), buf
        except WireError as error:
            return str(error)

    stamped = outcome(lambda *at: throttle.stamper(api)(*at, time_ms))
    assert stamped == outcome(lambda *at: throttle.stamp(*at, api, time_ms))
    assert throttle.stamper(api) is throttle.stamper(api)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_the_usual_produce_reply_is_stamped_without_a_walk(version: int) -> None:
    """One topic, one partition: the field lies before the last byte; any other reply is walked."""
    api = known(ApiKey.PRODUCE, version)
    assert api is not None
    name = bytes(16) if version >= 13 else b"\x06topic"
    partition = pack(">ihqqq", 0, 0, 17, -1, 0) + b"\x01\x00\x00"
    for count in (1, 2):
        body = bytes([2]) + name + bytes([count + 1]) + partition * count + b"\x00"
        body += pack(">i", 3) + b"\x00"
        buf = bytearray(pack(">iix", 5 + len(body), 7) + body)
        before = bytes(buf)
        assert throttle.stamper(api)(buf, 0, len(buf), 2) == 3
        assert buf == before
        assert throttle.stamper(api)(buf, 0, len(buf), SPEC_MS) == SPEC_MS
        assert buf == before[:-5] + pack(">i", SPEC_MS) + b"\x00"
