"""Headers of the PROXY protocol, as load balancers write them."""

from ipaddress import ip_address
from struct import pack

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def line(host: str, port: int) -> bytes:
    """Return a header of version 1."""
    family = ip_address(host).version
    here = "10.0.0.1" if family == 4 else "fd00::1"
    return f"PROXY TCP{family} {host} {here} {port} 9092\r\n".encode()


def binary(host: str, port: int, tlv: bytes = b"") -> bytes:
    """Return a header of version 2 with these extensions."""
    source = ip_address(host).packed
    address = source + bytes(len(source)) + pack(">HH", port, 9092)
    family = 0x11 if len(source) == 4 else 0x21
    return SIGNATURE + pack(">BBH", 0x21, family, len(address) + len(tlv)) + address + tlv
