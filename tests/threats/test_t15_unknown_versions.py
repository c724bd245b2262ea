"""T15: an unknown API or version that slips past the rewriting of addresses or past a quota.

Unknown keys and versions are hidden from ApiVersions and end at Sluice if they are sent anyway; no reply carries a
broker's address.
"""

import socket
import struct

from tests.support.faults.stub_broker import ADDRESS
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.measured import tell
from wire.apis import OFFERED

KEYS = range(-1, 101)
NEVER_OFFERED = -1
MINE = socket.inet_aton(ADDRESS)


def strange_versions(key: int) -> list[int]:
    """Return versions beyond the offered ones: by one, by two, and the largest."""
    newest = OFFERED[key][1] if key in OFFERED else NEVER_OFFERED
    return [newest + 1, newest + 2, 32767, -1]


def ask(port: int, request: bytes) -> bytes:
    """Return all bytes before the end; the client half-closes, so that an answered connection ends too."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return receive_until_closed(client)


def test_unknown_keys_and_versions_end_here(start, broker) -> None:
    """Every key at versions that are not offered is closed or answered by Sluice, and the broker sees none of them."""
    sluice = start(broker.server)
    received: dict[tuple[int, int], bytes] = {}
    for key in KEYS:
        for version in strange_versions(key):
            for tagged in (False, True) if version < 100 else (False,):
                request = f.request(key, version, 7, b"\x00" * 8, tagged=tagged)
                received[key, version] = ask(sluice.port, request)
    assert not broker.seen
    answered = {kind: data for kind, data in received.items() if data}
    assert {key for key, _ in answered} == {f.API_VERSIONS}
    assert len(answered) == 4
    for data in answered.values():
        assert data == f.reply(
            7, struct.pack(">hihhh", 35, 1, f.API_VERSIONS, *OFFERED[f.API_VERSIONS])
        )
    assert not any(leaks(data, broker.port) for data in received.values())
    tell(
        "T15",
        f"{len(received)} unknown keys and versions: none reached the broker, {len(answered)} were answered",
    )


def leaks(data: bytes, port: int) -> bool:
    """Return whether the broker's address is in the bytes, as text or as numbers."""
    return ADDRESS.encode() in data or MINE in data or struct.pack(">i", port) in data
