"""Headers are located across any cut, and a hostile header causes nothing but a WireError."""

from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.golden import cases
from wire import header
from wire.apis import ApiKey, known
from wire.errors import WireError
from wire.primitives import encode_string
from wire.varint import encode_uvarint

Locate = Callable[[bytes, int, int, int], int | None]

TAGS = st.dictionaries(st.integers(0, 300), st.binary(max_size=150), max_size=4)
CLIENT_IDS = st.none() | st.binary(max_size=200)


def tag_section(fields: dict[int, bytes]) -> bytes:
    """Return a tag section as a peer would write it."""
    return encode_uvarint(len(fields)) + b"".join(
        encode_uvarint(tag) + encode_uvarint(len(fields[tag])) + fields[tag]
        for tag in sorted(fields)
    )


def framed(rest: bytes) -> bytes:
    """Return a whole frame: its size, then `rest`."""
    return pack(">i", len(rest)) + rest


def request(version: int, client_id: bytes | None, tags: dict[int, bytes]) -> bytes:
    """Return a request's header without the size field, in header version 0, 1 or 2."""
    data = pack(">hhi", 3, 12, 7)
    if version >= 1:
        data += encode_string(client_id)
    if version == 2:
        data += tag_section(tags)
    return data


@given(
    version=st.integers(0, 2),
    client_id=CLIENT_IDS,
    tags=TAGS,
    body=st.binary(max_size=20),
    before=st.binary(max_size=3),
    behind=st.binary(max_size=20),
)
def test_a_request_body_is_found_as_soon_as_its_header_is_there(
    version: int,
    client_id: bytes | None,
    tags: dict[int, bytes],
    body: bytes,
    before: bytes,
    behind: bytes,
) -> None:
    """The reader gives None before the header's last byte, then the body's offset, for every cut of the stream."""
    head = request(version, client_id, tags)
    data = before + framed(head + body) + behind
    pos, body_at = len(before), len(before) + 4 + len(head)
    for end in range(pos, len(data) + 1):
        expected = body_at if end >= body_at else None
        assert header.body_at(data, pos, end, version) == expected
    if version:
        assert header.client_id_of(data, pos, body_at) == (client_id or b"")


@given(version=st.integers(0, 1), tags=TAGS, body=st.binary(max_size=20))
def test_a_response_body_is_found_as_soon_as_its_header_is_there(
    version: int, tags: dict[int, bytes], body: bytes
) -> None:
    """A response's body is found like a request's; header v1 has a tag section after the correlation id."""
    head = pack(">i", 7) + (tag_section(tags) if version else b"")
    data = framed(head + body)
    for end in range(len(data) + 1):
        expected = 4 + len(head) if end >= 4 + len(head) else None
        assert header.response_body_at(data, 0, end, version) == expected


@given(
    locate=st.sampled_from([header.body_at, header.response_body_at]),
    version=st.integers(0, 2),
    size=st.integers(0, 80) | st.integers(-(2**31), 2**31 - 1),
    rest=st.binary(max_size=80),
)
def test_more_bytes_never_change_the_outcome_of_a_hostile_header(
    locate: Locate, version: int, size: int, rest: bytes
) -> None:
    """An offset or WireError stays when more bytes come; no offset lies outside the frame or the bytes."""
    data = pack(">i", size) + rest
    verdict: int | str | None = None
    for end in range(len(data) + 1):
        now: int | str | None
        try:
            now = locate(data, 0, end, version)
        except WireError:
            now = "WireError"
        assert now == locate_or_error(locate, data[:end] + b"\xff" * 9, end, version)
        assert verdict is None or now == verdict
        if isinstance(now, int):
            assert now <= end
            assert now <= 4 + size
        verdict = now


def locate_or_error(locate: Locate, data: bytes, end: int, version: int) -> int | str | None:
    """Return the outcome for the same bytes with others after `end`."""
    try:
        return locate(data, 0, end, version)
    except WireError:
        return "WireError"


@given(st.binary(max_size=60), st.integers(0, 60))
def test_client_id_of_reads_inside_end_or_raises_wire_error(data: bytes, end: int) -> None:
    """Any bytes give a client id that lies inside them, or WireError."""
    end = min(end, len(data))
    try:
        found = header.client_id_of(data, 0, end)
    except WireError:
        return
    assert found == data[14 : 14 + len(found)]
    assert 14 + len(found) <= end


@pytest.mark.parametrize("end", [0, 12, 13, 14, 15])
def test_a_client_id_that_is_not_all_there_is_refused(end: int) -> None:
    """Its length and its bytes must lie before `end`."""
    data = framed(request(1, b"me", {}))
    with pytest.raises(WireError, match="client id"):
        header.client_id_of(data, 0, end)


@given(version=st.integers(0, 2), client_id=CLIENT_IDS, tags=TAGS, short=st.integers(1, 9))
def test_a_request_header_longer_than_its_frame_is_refused(
    version: int, client_id: bytes | None, tags: dict[int, bytes], short: int
) -> None:
    """A header that is longer than its complete frame, by one
    byte or by many, is refused; the reader does not wait.
    """
    head = request(version, client_id, tags)
    data = pack(">i", len(head) - min(short, len(head))) + head + b"the next frame"
    for end in (4 + len(head) - 1, 4 + len(head), len(data)):
        if end - 4 >= 8:
            with pytest.raises(WireError):
                header.body_at(data, 0, end, version)


@given(version=st.integers(0, 1), tags=TAGS, short=st.integers(1, 4))
def test_a_response_header_longer_than_its_frame_is_refused(
    version: int, tags: dict[int, bytes], short: int
) -> None:
    """A response header that is longer than its frame is refused like a request's."""
    head = pack(">i", 7) + (tag_section(tags) if version else b"")
    data = pack(">i", len(head) - short) + head + b"the next frame"
    for end in (4 + len(head), len(data)):
        with pytest.raises(WireError):
            header.response_body_at(data, 0, end, version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_id_length_below_null_is_refused(version: int) -> None:
    """Length -1 is null and 0 is empty; -2 is refused."""
    data = framed(pack(">hhih", 3, 12, 7, -2) + b"\x00")
    with pytest.raises(WireError):
        header.body_at(data, 0, len(data), version)
    with pytest.raises(WireError):
        header.client_id_of(data, 0, len(data))


@pytest.mark.parametrize(
    ("tags", "fits"),
    [
        ("40" + "".join(f"{tag:02x}00" for tag in range(64)), True),
        ("41" + "".join(f"{tag:02x}00" for tag in range(65)), False),
        ("0205000500", False),
        ("0205000400", False),
        ("8080808080", False),
        ("ffffffff1f", False),
    ],
)
def test_header_tags_obey_the_rules_of_every_tag_section(tags: str, fits: bool) -> None:  # noqa: FBT001 - a column of the table above
    """A header has at most 64 tags in ascending order, with varints of at most five bytes and 32 bits."""
    head = pack(">i", 7) + bytes.fromhex(tags)
    data = framed(head + b"body")
    if fits:
        assert header.response_body_at(data, 0, len(data), 1) == 4 + len(head)
        return
    with pytest.raises(WireError):
        header.response_body_at(data, 0, len(data), 1)


@pytest.mark.parametrize("locate", [header.body_at, header.response_body_at])
def test_a_header_that_could_grow_with_its_frame_is_refused(locate: Locate) -> None:
    """A tag of 50 MB in the header of a 100 MB frame is refused at once; the reader does not wait for it."""
    version = 2 if locate is header.body_at else 1
    head = pack(">hhih", 3, 12, 7, -1) if version == 2 else pack(">i", 7)
    data = pack(">i", 100_000_000) + head + b"\x02\x00" + encode_uvarint(50_000_000) + b"\x01"
    with pytest.raises(WireError):
        locate(data, 0, len(data), version)


def test_the_request_word_joins_key_and_version() -> None:
    """One unpack gives size, key << 16 | version, and correlation id; the table is looked up by the second."""
    data = framed(request(2, b"me", {}))
    size, word, correlation_id = header.REQUEST.unpack_from(data, 0)
    assert (size, word, correlation_id) == (len(data) - 4, 3 << 16 | 12, 7)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    """The whole header of ControlledShutdown v0 is 8 bytes; its client id is empty."""
    case = cases("wire")["hdr-controlled-shutdown-v0"]
    api = known(ApiKey.CONTROLLED_SHUTDOWN, 0)
    assert api is not None
    assert api.request_header_version == case["header_version"]
    data = framed(bytes.fromhex(case["hex"]))
    _size, word, correlation_id = header.REQUEST.unpack_from(data, 0)
    assert word == ApiKey.CONTROLLED_SHUTDOWN << 16
    assert correlation_id == case["correlation_id"]
    assert header.body_at(data, 0, len(data), 0) == 4 + case["size"] == len(data)


@pytest.mark.parametrize("case_id", ["hdr-v1-size", "hdr-v2-size"])
def test_header_sizes_are_those_of_kafka(case_id: str) -> None:
    """Header v1 with an empty client id takes 10 bytes; v2 adds one tag count, and its client id is not compact."""
    case = cases("wire")[case_id]
    api = known(case["api_key"], case["api_version"])
    assert api is not None
    head = pack(">hhi", api.key, api.version, case["correlation_id"]) + encode_string(b"")
    head += b"\x00" * (api.request_header_version == 2)
    data = framed(head + b"body")
    assert len(head) == case["size"]
    assert header.body_at(data, 0, len(data), api.request_header_version) == 4 + case["size"]
    assert header.client_id_of(data, 0, len(data)) == b""
