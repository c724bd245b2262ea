"""Broker lists: the parts that replace a segment, and when a list counts as unchanged."""

import pytest

from wire.broker_lists import (
    classic_address,
    classic_brokers,
    compact_address,
    compact_brokers,
    is_unchanged,
    splice,
)
from wire.errors import WireError
from wire.primitives import INT32, encode_compact, encode_string


def broker(node_id: int, host: bytes, rest: bytes = b"\x00\x00") -> bytes:
    return INT32.pack(node_id) + encode_compact(host) + INT32.pack(9092) + rest


def told(node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
    return b"told", port + node_id


def kept(_node_id: int, host: bytes, port: int) -> tuple[bytes, int]:
    return host, port


def test_each_broker_is_looked_up_once_in_order():
    """The advertised address is looked up once for each broker, by its id, host and port, in the list's order."""
    hosts = [b"a", b"b", b"ccc", b"dd", b"ee", b"f" * 200]
    data = bytearray(b"\x07" + b"".join(broker(n, host) for n, host in enumerate(hosts)))
    asked = []

    def ask(node_id, host, port):
        asked.append((node_id, host, port))
        return host, port

    assert compact_brokers(data, 0, len(data), 0, ask) == (None, len(data))
    assert asked == [(n, host, 9092) for n, host in enumerate(hosts)]


def test_a_change_of_the_last_broker_or_of_a_port_alone_is_seen():
    """A list in which only the last host or only a port differs is not taken for unchanged."""
    data = bytearray(b"\x03" + broker(1, b"told") + broker(2, b"real"))
    parts, after = compact_brokers(data, 0, len(data), 0, lambda _, __, port: (b"told", port))
    assert after == len(data)
    assert b"".join(parts) == b"\x03" + broker(1, b"told") + broker(2, b"told")
    data = bytearray(b"\x02" + broker(1, b"told"))
    parts, _ = compact_brokers(data, 0, len(data), 0, told)
    assert b"".join(parts) == b"\x02\x00\x00\x00\x01\x05told" + INT32.pack(9093) + b"\x00\x00"


@pytest.mark.parametrize("data", [b"\x00", b"\x01"])
def test_no_address_is_looked_up_for_an_empty_list(data):
    """A null list and an empty list contain no broker to look up."""
    assert compact_brokers(bytearray(data), 0, 1, 0, told) == (None, 1)


def test_a_cut_last_broker_or_a_count_beyond_the_body_is_malformed():
    """Even if old bytes would complete it; a count is refused before anything is built."""
    data = bytearray(b"\x05" + broker(1, b"abc") * 4)
    for cut in range(len(data)):
        with pytest.raises(WireError):
            compact_brokers(data, 0, cut, 0, told)

    with pytest.raises(WireError):
        compact_brokers(bytearray(b"\xff\xff\xff\xff\x0f" + bytes(99)), 0, 104, 0, told)
    with pytest.raises(WireError):
        classic_brokers(bytearray(b"\x7f\xff\xff\xff" + bytes(99)), 0, 103, told, racks=True)


def test_racks_of_classic_brokers_are_kept():
    """v1 to v8 carry racks, null or not, which are kept."""
    one = INT32.pack(1) + encode_string(b"real") + INT32.pack(9092)
    two = INT32.pack(2) + encode_string(b"real") + INT32.pack(9092)
    data = bytearray(INT32.pack(2) + one + encode_string(None) + two + encode_string(b"rack"))
    parts, after = classic_brokers(data, 0, len(data), told, racks=True)
    assert after == len(data)
    new = one.replace(b"real", b"told").replace(INT32.pack(9092), INT32.pack(9093))
    newer = two.replace(b"real", b"told").replace(INT32.pack(9092), INT32.pack(9094))
    assert b"".join(parts) == INT32.pack(2) + new + b"\xff\xff" + newer + encode_string(b"rack")
    assert classic_brokers(data, 0, len(data), kept, racks=True) == (None, len(data))


def test_addresses_without_a_host_are_kept_and_listener_ports_are_unsigned():
    """Null and empty hosts are not changed; a uint16 port above 32767 is read and written unsigned."""
    for read, data in ((compact_address, b"\x00"), (compact_address, b"\x01"),
                       (classic_address, b"\xff\xff"), (classic_address, b"\x00\x00")):  # fmt: skip
        whole = bytearray(data + bytes(4))
        assert read(whole, -1, 0, len(whole), told) == (whole, len(whole))

    data = bytearray(encode_compact(b"real") + b"\xff\xfe")
    new, after = compact_address(data, 1, 0, len(data), told, port_bytes=2)
    assert (new, after) == (encode_compact(b"told") + b"\xff\xff", len(data))


def test_same_and_spliced():
    """`is_unchanged` compares the parts with the segment; `splice` replaces the segment by them."""
    buf = bytearray(b"..abcdef!!")
    assert is_unchanged(buf, 3, 7, [b"b", b"cde"])
    assert not is_unchanged(buf, 3, 7, [b"b", b"cd"])
    assert not is_unchanged(buf, 3, 7, [b"b", b"xde"])
    assert splice(buf, 2, 8, [b"1", b"23"], 3, 7) == b"a123f"
    assert splice(buf, 2, 8, None, 3, 7) is None
    buf.extend(b"still resizable")
