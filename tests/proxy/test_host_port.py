"""HOST:PORT: an IPv6 address stands in brackets wherever a port follows it."""

import re
from pathlib import Path

import pytest

from proxy.host_port import host_port

ROOT = Path(__file__).resolve().parents[2]
JOINED = re.compile(
    r"\{[^{}]*(?:host|address|name)[^{}]*\}:\{[^{}]*(?:port|at|\[1\])[^{}]*\}", re.IGNORECASE
)
ALLOWED = {"proxy/host_port.py", "proxy/testing.py"}
"""The function itself, and a constant IPv4 address."""


@pytest.mark.parametrize(
    ("host", "shown"),
    [("127.0.0.1", "127.0.0.1:9092"), ("kafka-1", "kafka-1:9092"), ("::1", "[::1]:9092")],
)
def test_an_ipv6_address_has_brackets(host, shown):
    """Any other host has none."""
    assert host_port(host, 9092) == shown


def test_no_other_code_joins_a_host_and_a_port():
    """It would forget the brackets."""
    found = {
        f"{path.relative_to(ROOT)}: {match}"
        for room in ("proxy", "policies", "wire")
        for path in (ROOT / room).rglob("*.py")
        if str(path.relative_to(ROOT)) not in ALLOWED and "demo" not in path.parts
        for match in JOINED.findall(path.read_text("utf-8"))
    }
    assert not found


def test_the_pattern_finds_a_join():
    """Else the test above could not fail."""
    for text in ("{host}:{port}", "{peer.host}:{peer.port}", "{listen.address}:{listen.port}"):
        assert JOINED.search(text)
