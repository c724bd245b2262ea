"""A process that writes a usage log as fast as it can, for tests that kill it.

    python row_writer.py DIRECTORY ROWS_PER_SECOND NAME_CHARS ROTATE_MS ROTATE_BYTES CHUNK_BYTES

It prints a line after each second that it has handed to the files: how many rows there are by then. Seconds pass as
quickly as they can be written. CHUNK_BYTES is the most that the disk takes at once, so that a kill hits half a line.
"""

import os
import sys
from pathlib import Path

from proxy.core.stats.usage import UsageRow
from proxy.telemetry.usage_log.retention import SegmentWriter
from proxy.telemetry.usage_log.rows import Sequencer, entity_rows
from proxy.telemetry.usage_log.segment import new_boot

START_MS = 1_763_683_200_000


def main() -> None:
    """Write until killed."""
    directory, rows_per_second, name_chars, rotate_ms, rotate_bytes, chunk_bytes = sys.argv[1:]
    write, most = os.write, int(chunk_bytes)
    os.write = lambda descriptor, data: write(descriptor, data[:most])
    boot = new_boot(START_MS)
    sequencer = Sequencer("pod-7", boot)
    writer = SegmentWriter(
        Path(directory),
        "pod-7",
        boot,
        rotate_ms=int(rotate_ms),
        rotate_bytes=int(rotate_bytes),
        keep_bytes=1 << 40,
    )
    writer.open()
    count = int(rows_per_second)
    print(boot, flush=True)  # noqa: T201 - what the test reads
    for second in range(1_000_000):
        now_ms = START_MS + second * 1000
        rows = [
            UsageRow(now_ms, "u", f"{place}".rjust(int(name_chars), "x"), place, *[1] * 12)
            for place in range(count)
        ]
        writer.write("entity", list(entity_rows(sequencer, rows, [None] * count)), now_ms)
        writer.tick(now_ms)
        print((second + 1) * count, flush=True)  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main()
