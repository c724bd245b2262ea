"""The PROXY protocol: a load balancer's header before a client's first byte, with the address of that client.

Sans-IO: `ProxyHeader.feed` gets what has arrived, without taking it from the socket, and returns how much of it belongs
to the header. So not one byte of the client is ever taken.

Rules:
- Version 1 is a line of at most 107 bytes; version 2 is binary, and its extensions (TLV) are skipped, not kept.
- At most MAX_HEADER_BYTES are read. The bytes that are kept are those of the address.
- LOCAL (a health check of the load balancer itself), UNKNOWN and families without an IP address name no client: the
  connection counts for the address it comes from.

Source: HAProxy's `proxy-protocol.txt`, versions 1 and 2.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final

from proxy.core.errors import ProxyHeaderError
from proxy.core.protocol_sniffer import PROXY_V1, PROXY_V2, guess_protocol

MAX_V1_BYTES: Final = 107
"""The longest line of version 1, with its end."""
MAX_HEADER_BYTES: Final = 4096
_FIXED_BYTES: Final = 16  # of version 2: signature, version and command, family, length
_END: Final = b"\r\n"
_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
_DATAGRAMS: Final = frozenset({0x12, 0x22, 0x32})
_UNNAMED: Final = frozenset({0x00, 0x31})  # unspecified, a Unix socket
_ADDRESSES: Final = {_TCP4: Struct(">4s4sHH"), _TCP6: Struct(">16s16sHH")}
_LENGTH: Final = Struct(">H").unpack_from
_PORT_MAX: Final = 65535


class ProxyHeader:
    """The header of one connection. Once `done`, `source` is the client's host and port; None: it names none."""

    __slots__ = ("_header", "_left", "_skips", "done", "source")

    def __init__(self) -> None:
        self.done = False
        self.source: tuple[str, int] | None = None
        self._header = b""  # as far as it has arrived
        self._skips = False  # only bytes without meaning are left
        self._left = 0  # of those

    @property
    def begun(self) -> bool:
        """Whether a byte has arrived."""
        return bool(self._header)

    @property
    def wanted_bytes(self) -> int:
        """Return how many bytes to look at next: none of them is taken before `feed` says so."""
        return self._left if self._skips else MAX_V1_BYTES

    def feed(self, data: bytes) -> int:
        """Look at the next bytes; return how many of them belong to the header. Raises ProxyHeaderError.

        After an error nothing more may be fed.
        """
        if self._skips:
            taken = min(len(data), self._left)
            self._left -= taken
            self.done = not self._left
            return taken
        before = len(self._header)
        whole = self._header + data
        if not _may_begin(whole):
            shown = whole[:16]
            raise ProxyHeaderError(
                f"no PROXY header: the connection begins with {shown!r}{guess_protocol(shown)}"
            )
        if whole[:1] == PROXY_V1[:1]:
            return self._feed_line(whole) - before
        return self._feed_binary(whole) - before

    def _feed_line(self, whole: bytes) -> int:
        end = whole.find(_END, 0, MAX_V1_BYTES)
        if end >= 0:
            self._header = whole[:end]
            self.source = _source_of_line(self._header)
            self.done = True
            return end + len(_END)
        if len(whole) >= MAX_V1_BYTES:
            raise ProxyHeaderError(f"a PROXY line of more than {MAX_V1_BYTES} bytes")
        self._header = whole
        return len(whole)

    def _feed_binary(self, whole: bytes) -> int:
        if len(whole) < _FIXED_BYTES:
            self._header = whole
            return len(whole)
        command, family, (size,) = whole[12], whole[13], _LENGTH(whole, 14)
        size_bytes = _FIXED_BYTES + size
        if command not in (_LOCAL, _PROXY):
            raise ProxyHeaderError(
                f"PROXY version and command 0x{command:02x}, expected 0x20 or 0x21"
            )
        if size_bytes > MAX_HEADER_BYTES:
            raise ProxyHeaderError(
                f"a PROXY header of {size_bytes} bytes, expected at most {MAX_HEADER_BYTES}"
            )
        address = _ADDRESSES.get(family) if command == _PROXY else None
        if command == _PROXY and address is None and family not in _UNNAMED:
            what = "datagrams" if family in _DATAGRAMS else "an unknown family"
            raise ProxyHeaderError(f"PROXY family 0x{family:02x}: {what}")
        needed_bytes = _FIXED_BYTES + (0 if address is None else address.size)
        if size_bytes < needed_bytes:
            raise ProxyHeaderError(f"a PROXY header of {size_bytes} bytes without an address")
        if len(whole) < needed_bytes:
            self._header = whole
            return len(whole)
        self._header = whole[:needed_bytes]
        if address is not None:
            source, _, port, _ = address.unpack_from(whole, _FIXED_BYTES)
            kind = IPv4Address if family == _TCP4 else IPv6Address
            self.source = str(kind(source)), port
        self._skips, self._left = True, size_bytes - needed_bytes
        return needed_bytes + self.feed(whole[needed_bytes:])


def _may_begin(head: bytes) -> bool:
    """Return whether these bytes are the beginning of a header, as far as they go."""
    return any(head.startswith(each[: len(head)]) for each in (PROXY_V1, PROXY_V2))


def _source_of_line(line: bytes) -> tuple[str, int] | None:
    """Return the client's host and port in a line of version 1; None if it is unknown. Raises ProxyHeaderError."""
    words = line.split(b" ")
    if words[1:2] == [b"UNKNOWN"]:
        return None
    kinds = {b"TCP4": IPv4Address, b"TCP6": IPv6Address}
    kind = kinds.get(words[1]) if len(words) == 6 else None
    malformed = ProxyHeaderError(f"a malformed PROXY line: {line!r}")
    if kind is None:
        raise malformed
    try:
        host, _ = (kind(each.decode("ascii")) for each in words[2:4])
        port, _ = (_port(each) for each in words[4:6])
    except ValueError:
        raise malformed from None
    return str(host), port


def _port(digits: bytes) -> int:
    if not (digits.isdigit() and len(digits) <= len(str(_PORT_MAX)) and int(digits) <= _PORT_MAX):
        raise ValueError
    return int(digits)
