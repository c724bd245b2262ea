"""The PROXY header: the client's address, wherever reads end, and not one byte of the client."""

import gc
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import CloseReason, ProxyHeaderError
from proxy.core.proxy_protocol import MAX_HEADER_BYTES, MAX_V1_BYTES, ProxyHeader
from tests.support.messages.proxy_headers import SIGNATURE, binary, line

KAFKA = b"\x00\x00\x00\x0e\x00\x12\x00\x00the first request"
PORTS = st.integers(0, 65535)
HOSTS = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


def read(stream: bytes, cuts: list[int]) -> tuple[ProxyHeader, bytes]:
    """Feed a stream that arrives in pieces, as a socket shows it; return the header, and what was left."""
    header, arrived, taken = ProxyHeader(), 0, 0
    for cut in [*sorted({min(cut, len(stream)) for cut in cuts}), len(stream)]:
        arrived = cut
        while not header.done and taken < arrived:
            seen = stream[taken : min(arrived, taken + header.wanted_bytes)]
            used = header.feed(seen)
            assert 0 < used <= len(seen), "a socket that stays readable would be read without end"
            taken += used
    return header, stream[taken:]


def headers() -> st.SearchStrategy[tuple[bytes, tuple[str, int] | None]]:
    """Return headers of both versions, and the source that each names."""

    def one(host: str, port: int, tlv: bytes, form: int):
        if form == 0:
            return line(host, port), (host, port)
        if form == 1:
            return binary(host, port, tlv), (host, port)
        if form == 2:
            return b"PROXY UNKNOWN and more words\r\n", None
        if form == 3:
            return SIGNATURE + pack(">BBH", 0x20, 0, len(tlv)) + tlv, None
        return SIGNATURE + pack(">BBH", 0x21, 0, len(tlv)) + tlv, None

    return st.builds(one, HOSTS, PORTS, st.binary(max_size=300), st.integers(0, 4))


@given(headers(), st.lists(st.integers(0, 500), max_size=12) | st.just(list(range(500))))
def test_the_source_is_read_wherever_the_stream_is_cut(given_header, cuts):
    """And exactly the header is taken: the client's bytes stay in the socket, for TLS or Kafka."""
    data, source = given_header
    header, left = read(data + KAFKA, cuts)
    assert header.done
    assert header.source == source
    assert left == KAFKA


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_any_other_bytes_end_in_an_error_or_wait_for_more(data, cuts):
    """Never in a crash, and never in an address that nothing has named."""
    assert ProxyHeaderError.reason is CloseReason.PROXY_HEADER
    with suppress(ProxyHeaderError):
        header, _ = read(data, cuts)
        assert not header.done or data.startswith((b"PROXY ", SIGNATURE))


@given(headers(), st.integers(0, 400), st.integers(0, 255))
def test_a_changed_header_names_a_valid_address_or_none(given_header, place, value):
    """A broken load balancer can send anything; limits never see a text that is no address."""
    stream = bytearray(given_header[0])
    stream[place % len(stream)] = value
    try:
        header, _ = read(bytes(stream), [])
    except ProxyHeaderError:
        return
    if header.done and header.source is not None:
        ip_address(header.source[0])
        assert 0 <= header.source[1] <= 65535


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (KAFKA, "no PROXY header: the connection begins with"),
        (b"\x16\x03\x01\x02\x00", "this looks like TLS"),
        (b"GET / HTTP/1.1\r\n", "this looks like HTTP"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", "malformed"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", "malformed"),
        (b"PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n", "malformed"),
        (b"PROXY TCP4 ::1 5.6.7.8 1 2\r\n", "malformed"),
        (b"PROXY TCP6 1.2.3.4 ::1 1 2\r\n", "malformed"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", "malformed"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n", "malformed"),
        (b"PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n", "malformed"),
        (b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", "malformed"),
        (b"PROXY \r\n", "malformed"),
        (b"PROXY TCP4 " + b"1" * 200, "more than 107 bytes"),
        (SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12), "version and command 0x11"),
        (SIGNATURE + b"\x22\x11\x00\x0c" + bytes(12), "version and command 0x22"),
        (SIGNATURE + b"\x21\x12\x00\x0c" + bytes(12), "datagrams"),
        (SIGNATURE + b"\x21\x41\x00\x0c" + bytes(12), "unknown family"),
        (SIGNATURE + b"\x21\x11\x00\x0b" + bytes(11), "without an address"),
        (SIGNATURE + b"\x21\x21\x00\x0c" + bytes(12), "without an address"),
        (SIGNATURE + b"\x21\x11\xff\xff", "at most 4096"),
        (SIGNATURE + b"\x20\x00\xff\xff", "at most 4096"),
    ],
)
@pytest.mark.parametrize("step", [1, 5, 1000])
def test_a_wrong_header_is_refused(data, words, step):
    """Wherever it is cut; what it looks like is named."""
    with pytest.raises(ProxyHeaderError) as refused:
        read(data, list(range(0, len(data), step)))
    if step == 1000 or "looks like" not in words:
        assert words in str(refused.value)


def test_little_is_kept_of_a_long_header():
    """The extensions of version 2 are skipped as they come: no text of it is longer than what names the client."""
    header = ProxyHeader()
    stream = binary("10.1.2.3", 4000, bytes(MAX_HEADER_BYTES - 16 - 12))
    assert len(stream) == MAX_HEADER_BYTES
    taken = header.feed(stream[:MAX_V1_BYTES])
    while not header.done:
        taken += header.feed(stream[taken : taken + header.wanted_bytes])
    kept = [each for each in gc.get_referents(header) if isinstance(each, bytes | bytearray)]
    assert max(map(len, kept), default=0) <= 28
    assert header.source == ("10.1.2.3", 4000)


def test_addresses_are_written_as_the_system_writes_them():
    """So that limits, quotas and logs count one client once."""
    header, _ = read(b"PROXY TCP6 FD00:0:0::0001 ::1 1 2\r\n", [])
    assert header.source == ("fd00::1", 1)
    assert IPv6Address(header.source[0]) != IPv4Address("1.1.1.1")
