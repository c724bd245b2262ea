"""Narrowing an ApiVersions response: which ranges are kept, dropped or passed byte for byte."""

import io
from datetime import timedelta
from struct import iter_unpack, pack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from tests.support.messages.every_case import for_each
from tests.support.messages.golden import cases
from wire import versions
from wire.apis import OFFERED, ApiKey, known
from wire.errors import WireError
from wire.primitives import encode_count

Range = tuple[int, int, int]

INT16 = st.integers(-(2**15), 2**15 - 1)
RANGES = st.lists(st.tuples(INT16 | st.integers(0, 99), INT16, INT16), max_size=30)
SOME = {0: (3, 9), 3: (0, 12), 18: (0, 4)}


def v0(ranges: list[Range], error: int = 0) -> bytes:
    """Return a body in the layout of v0."""
    return (
        pack(">h", error) + encode_count(len(ranges)) + b"".join(pack(">hhh", *r) for r in ranges)
    )


def ranges_of(body: bytes) -> list[Range]:
    """Return the ranges of a body in the layout of v0."""
    return list(iter_unpack(">hhh", body[6:]))  # type: ignore[arg-type] - three int16 by format


def narrowed(body: bytes, version: int, *more: frozenset[int]) -> bytes:
    """Return `narrow` of a body that lies between other bytes."""
    buf = bytearray(b"??" + body + b"\x00" * 9)
    return versions.narrow(buf, 2, 2 + len(body), version, SOME, *more)


def test_ranges_are_intersected_and_unknown_keys_dropped() -> None:
    """A range is never widened; a key that was opted in passes as the broker sent it, and a key of ours is narrowed."""
    body = v0([(3, -1, 20), (99, 0, 1), (18, 5, 6)])
    assert narrowed(body, 0) == v0([(3, 0, 12)])

    body = v0([(3, 4, 9), (18, 2, 2)])
    assert narrowed(body, 0) == body

    body = v0([(98, 0, 1), (99, 2, 5), (3, 0, 99)])
    assert narrowed(body, 0, frozenset({99, 3})) == v0([(99, 2, 5), (3, 0, 12)])


@for_each(range(5))
def test_the_least_version_of_produce_stays_the_brokers(version: int) -> None:
    """A 4.x broker announces 0 and accepts 3; librdkafka must see the 0 (KAFKA-18659)."""
    case = cases("apiversions")["produce-min-version-advertised"]
    assert case["accepted"] > case["advertised"]
    assert case["accepted"] == SOME[0][0]
    schema = load_response_schema(ApiKey.API_VERSIONS, version)
    sent = response(schema, [(0, case["advertised"], 13)])
    assert pairs(decode(schema, narrowed(sent, version))) == [(0, case["advertised"], 9)]
    assert OFFERED[ApiKey.PRODUCE][0] == case["advertised"]


@given(RANGES, st.frozensets(st.integers(0, 99), max_size=3))
def test_narrowing_twice_changes_nothing_more(ranges: list[Range], extra: frozenset[int]) -> None:
    """Each range that remains is offered or opted in; the broker's order is kept."""
    once = narrowed(v0(ranges), 0, extra)
    assert narrowed(once, 0, extra) == once
    for key, low, high in ranges_of(once):
        assert low <= high
        if key in SOME:
            assert high <= SOME[key][1]
            assert low >= SOME[key][0] or key == ApiKey.PRODUCE
        else:
            assert (key, low, high) in ranges
            assert key in extra


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 4).flatmap(lambda v: st.tuples(st.just(v), sent_by_a_broker(v))))
def test_all_fields_but_the_ranges_are_kept(sent: tuple[int, Any]) -> None:
    """Error, throttle time, features and other tagged fields equal those that kio wrote."""
    version, entity = sent
    schema = type(entity)
    after = decode(schema, narrowed(encode(schema, entity), version, frozenset({99})))
    assert pairs(after) == [
        (key, least, most)
        for key, low, high in pairs(entity)
        for ours in (SOME.get(key, (low, high)),)
        for least, most in ((max(low, ours[0]) if key else low, min(high, ours[1])),)
        if (key in SOME or key == 99) and least <= most
    ]
    for name in schema.__slots__:
        if name != "api_keys":
            assert getattr(after, name) == getattr(entity, name)


def sent_by_a_broker(version: int) -> st.SearchStrategy[Any]:
    """Return any response of this version except error 35, which has another layout."""
    schema = load_response_schema(ApiKey.API_VERSIONS, version)
    return st.from_type(schema).filter(lambda e: e.error_code != KioErrorCode.unsupported_version)


def test_unknown_tagged_fields_pass_byte_for_byte() -> None:
    """Tag 9 after the body and a tag of a kept key stay; a dropped key's tags are dropped."""
    one = bytes.fromhex("00030000000c010502cafe")
    two = bytes.fromhex("00630000000c010502dead")
    tail = bytes.fromhex("00000000010903beef01")
    assert narrowed(b"\x00\x00\x03" + one + two + tail, 3) == b"\x00\x00\x02" + one + tail


@pytest.mark.parametrize("asked", [0, 1, 3, 4, 5, 32767])
def test_error_35_has_the_layout_of_v0_for_every_version(asked: int) -> None:
    """The range in it is narrowed like any other, so that no client tries a hidden version."""
    assert narrowed(v0([(18, 0, 5)], 35), asked) == v0([(18, 0, 4)], 35)


@pytest.mark.parametrize(
    "case_id", ["apiversions-unsupported-with-hint", "apiversions-unsupported-no-hint"]
)
def test_a_brokers_range_in_error_35_reaches_the_client(case_id: str) -> None:
    """A range below Sluice's, or none at all, passes: the client retries with 2, or with 0."""
    case = cases("apiversions")[case_id]
    body = bytes.fromhex(case["body"])
    assert narrowed(body, case["asked"]) == body


def test_our_own_answer_to_a_too_new_request_is_kafkas() -> None:
    """It has the v0 layout, error 35, and key 18 with Sluice's range, after a header v0 (KIP-511)."""
    case = cases("apiversions")["apiversions-server-unsupported"]
    assert versions.unsupported_version(OFFERED) == bytes.fromhex(case["body"])
    assert OFFERED[ApiKey.API_VERSIONS][1] < case["asked"]
    for version in range(6):
        api = known(ApiKey.API_VERSIONS, version)
        assert api is not None
        assert api.response_header_version == case["response_header_version"]
    schema = load_response_schema(ApiKey.API_VERSIONS, 0)
    assert decode(schema, bytes.fromhex(case["body"])).error_code == 35


def test_only_error_35_may_have_an_unknown_layout() -> None:
    """The mock of librdkafka 2.16 answers v3 and v4 with error 35 in a layout of no version."""
    refusal = bytes.fromhex("0023 01 0012 0000 0002 00000000")

    assert versions.narrow(b"ab" + refusal + b"c", 2, 2 + len(refusal), 4, OFFERED) == refusal

    with pytest.raises(WireError, match="v6"):
        narrowed(v0([]), 6)


@pytest.mark.parametrize(
    ("version", "hexed"),
    [
        (0, "00"),
        (0, "0000ffffffff"),
        (0, "00007fffffff"),
        (0, "00000000000000"),
        (1, "0000000000000000"),
        (3, "0000000000000000"),
        (3, "00000100000000"),
        (3, "000001000000000000"),
    ],
)
def test_malformed_responses_are_refused(version: int, hexed: str) -> None:
    """A response is refused if it is cut or null, has an impossible count, or has bytes after its end."""
    with pytest.raises(WireError):
        narrowed(bytes.fromhex(hexed), version)


@pytest.mark.parametrize(
    ("version", "hexed"),
    [
        (0, "0000 00000001 000300000009"),
        (1, "0000 00000001 000300000009 00000007"),
        (3, "0000 02 000300000009 010502cafe 00000007 00"),
        (4, "0023 00000001 000300000009"),
    ],
)
def test_the_ranges_of_a_broker_are_read_without_its_throttle_time(
    version: int, hexed: str
) -> None:
    """Error 35 has the layout of v0 for every version."""
    body = bytes.fromhex(hexed)
    ranges, told = versions.read(body, version)
    assert ranges == {3: (0, 9)}
    assert told == body.replace(pack(">i", 7), bytes(4))


@pytest.mark.parametrize("version", [-1, 6])
def test_the_ranges_of_an_unknown_version_are_not_read(version: int) -> None:
    """Its layout is not known."""
    with pytest.raises(WireError, match="is not in the table"):
        versions.read(bytes(6), version)


@given(version=st.integers(-1, 7), data=st.binary(max_size=80), behind=st.binary(max_size=30))
def test_any_bytes_give_a_body_or_a_wire_error(version: int, data: bytes, behind: bytes) -> None:
    """The bytes after `end` do not change the outcome."""
    assert outcome(data + behind, len(data), version) == outcome(data, len(data), version)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 4).flatmap(lambda v: st.tuples(st.just(v), sent_by_a_broker(v))),
    st.data(),
)
def test_cut_and_mutated_responses_give_a_body_or_a_wire_error(
    sent: tuple[int, Any], data: st.DataObject
) -> None:
    """Every truncation is refused; every flipped byte gives a body or a WireError."""
    version, entity = sent
    body = bytearray(encode(type(entity), entity))
    cut = data.draw(st.integers(0, len(body) - 1))
    assert outcome(bytes(body), cut, version) is None
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    after = outcome(bytes(body), len(body), version)
    assert after is None or len(after) <= len(body)


def outcome(buf: bytes, end: int, version: int) -> bytes | None:
    """Return the narrowed body, or None for a WireError; any other exception escapes."""
    try:
        return versions.narrow(buf, 0, end, version, SOME)
    except WireError:
        return None


def response(schema: type[Any], ranges: list[Range]) -> bytes:
    """Return a response without error, encoded by kio."""
    inner = schema.__annotations__["api_keys"].__args__[0]
    keys = tuple(inner(api_key=k, min_version=low, max_version=high) for k, low, high in ranges)
    more = {"throttle_time": timedelta()} if "throttle_time" in schema.__slots__ else {}
    return encode(schema, schema(error_code=KioErrorCode.none, api_keys=keys, **more))


def pairs(entity: Any) -> list[Range]:
    """Return the ranges of a decoded response."""
    return [(k.api_key, k.min_version, k.max_version) for k in entity.api_keys]


def encode(schema: type[Any], entity: Any) -> bytes:
    """Return the message as kio encodes it."""
    out = io.BytesIO()
    entity_writer(schema)(out, entity)
    return out.getvalue()


def decode(schema: type[Any], body: bytes) -> Any:
    """Return the message as kio decodes it; the body must be used up."""
    entity, size = entity_reader(schema)(body, 0)
    assert size == len(body)
    return entity
