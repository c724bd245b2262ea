"""T17: a compressed record batch that would expand to a thousand times its size (a decompression bomb).

Sluice never decompresses or parses records: of a batch it reads the header, to count records. A bomb costs exactly what
random bytes of the same size cost, and the broker receives it unchanged.
"""

import ast
import struct
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from policies.api import Need
from proxy.core.stats.topic_usage import TopicUsage
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.house.house import ROOM_MODULES, name
from tests.support.messages import frames as f
from tests.support.processes.measured import counted_work, tell

EXPANDED_BYTES = 32 << 20
ZSTD = 4
CODECS = {"zlib", "gzip", "bz2", "lzma", "zstandard", "lz4", "snappy", "zstd", "brotli"}
NOT_RECORDS = {
    "proxy/admin/dashboard.py",
    "proxy/telemetry/metrics/push.py",
    "policies/testing/record_writer.py",
}
"""These may compress data that Sluice itself sends, and batches for an author's tests."""


def batch(records: bytes) -> bytes:
    """Return a record batch v2 whose header says: zstd, one million records."""
    tail = struct.pack(">hiqqqhi", ZSTD, 999_999, 0, 0, -1, -1, -1) + struct.pack(">i", 1_000_000)
    body = struct.pack(">ibI", 0, 2, 0) + tail + records
    return struct.pack(">qi", 0, len(body)) + body


def produce(records: bytes) -> bytes:
    """Return a Produce v3 of this batch."""
    head = f.string(None) + struct.pack(">hii", 1, 30_000, 1) + f.string("t")
    return f.request(
        f.PRODUCE, 3, 1, head + struct.pack(">iii", 1, 0, len(records)) + records, client_id="t"
    )


BOMB = zstandard.compress(bytes(EXPANDED_BYTES))
HARMLESS = bytes(n * 7 % 251 for n in range(len(BOMB)))


@pytest.mark.parametrize("need", [Need.HEADER, Need.HEAD, Need.BODY])
def test_a_bomb_costs_what_any_other_records_cost(need: Need) -> None:
    """The same lines of Python, no more memory, and the same bytes at the broker, whichever part a policy reads."""
    work, peak = {}, 0
    for kind, records in {"warm": HARMLESS, "harmless": HARMLESS, "bomb": BOMB}.items():
        wire = Wire(make_engine([Recorder(needs=need)], topic_usage=TopicUsage()))
        request = produce(batch(records))
        tracemalloc.start()
        wire.client(request)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert wire.to_broker == request
        wire.broker(f.produce_reply(1))
        with counted_work() as counted:
            wire.client(request)
        work[kind] = counted.lines
    tell(
        "T17",
        f"{len(BOMB)} bytes that expand to 32 MiB, {need.name}: {work['bomb']} lines, {peak} bytes at the peak",
    )
    assert work["bomb"] == work["harmless"]
    assert peak < 64 << 10


def test_no_room_imports_a_decompressor() -> None:
    """There is no code that could expand a batch."""

    def imports(path: Path) -> set[str]:
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        plain = {
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        }
        return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}

    found = {name(path): imports(path) & CODECS for path in ROOM_MODULES}
    assert {path for path, codecs in found.items() if codecs} <= NOT_RECORDS
