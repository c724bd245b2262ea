"""T7: a million client ids, to fill the maps of quotas, metrics, usage rows and the log.

Each map is bounded: 10,000 clients of a quota, 100 users on the metrics page and one row for the others, 249 characters
of a name. The same number of new client ids again must cost no more memory.
"""

import gc

import psutil

from proxy.telemetry.escaping import MAX_NAME_CHARS, printable
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.processes.admin_room import AdminRoom, quota_entry, roomy
from tests.support.processes.measured import scaled, tell
from tests.support.telemetry.metrics_page import page_of

IDS = scaled(20_000, 1_000_000)
"""After the first FILL."""
FILL = 15_000
"""More than any bound."""
PIPELINED = 500
GROWTH_BYTES = 4 << 20
PAGE_BYTES = 1 << 20
QUOTAS = {"quotas": [{"client_id": "<default>", "request_rate": 1_000_000}]}


def flood(room: AdminRoom, wire: Wire, first: int, count: int) -> None:
    """Send a request under each of so many new client ids; a second passes for each 5,000."""
    for start in range(first, first + count, PIPELINED):
        numbers = range(start, start + PIPELINED)
        wire.to_broker = wire.to_client = b""
        wire.client(b"".join(f.heartbeat(n, f"client-{n}") for n in numbers))
        assert len(f.split(wire.to_broker)) == PIPELINED
        wire.broker(b"".join(f.heartbeat_reply(n) for n in numbers))
        wire.advance(100)
        room.watcher.rows.clear()  # the test's own


def test_new_client_ids_cost_no_more_memory_once_the_maps_are_full() -> None:
    """Quotas, metrics, dashboard figures and usage rows are on; the metrics page stays below a MiB."""
    memory = psutil.Process().memory_info
    with roomy(policies=(quota_entry(**QUOTAS),)) as room:
        wire = Wire(room.engine)
        flood(room, wire, 0, FILL)
        gc.collect()
        before = memory().rss
        flood(room, wire, FILL, IDS)
        gc.collect()
        growth = memory().rss - before
        page = page_of(room.metrics)
        tell("T7", f"{IDS:,} more client ids: memory {growth / (1 << 20):+.2f} MiB; "
             f"metrics page {len(page):,} bytes")  # fmt: skip
        assert not wire.session.ended
        assert growth < GROWTH_BYTES
        assert len(page) < PAGE_BYTES
        assert page.count(b"client-") <= 100
        wire.release()


def test_long_and_strange_names_are_cut_and_escaped() -> None:
    """A name in a line of the log has 249 characters at most and no control character."""
    shown = printable("\x1b[2J\n" + "n" * 5000)
    assert len(shown) <= MAX_NAME_CHARS + 1
    assert shown.isprintable()
