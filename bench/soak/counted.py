"""`python -m bench.soak.counted FILE SECONDS run ...`: a Sluice that writes what it holds to FILE, every SECONDS.

A line is JSON: the time, the resident memory, Python's allocated blocks and the number of collected objects of each
type. Objects without references to others, such as integers, are counted as blocks only. Cycles are collected first,
so what grows is referred to by something, or has lost a reference count in compiled code.
"""

import gc
import json
import sys
import threading
import time
from collections import Counter
from itertools import chain
from pathlib import Path

from bench.harness.usage import field_bytes


def held() -> dict[str, object]:
    """Return what this process holds now."""
    gc.collect()
    # In one call of C, so that no other thread runs while this one refers to all objects: a tuple that is being made
    # cannot grow if it is referred to, and its maker fails.
    types = Counter(list(map(type, chain.from_iterable(map(gc.get_objects, range(3))))))
    return {
        "at_s": time.monotonic(),
        "resident_bytes": field_bytes(Path("/proc/self/status").read_text(), "VmRSS"),
        "blocks": sys.getallocatedblocks(),
        "types": {f"{kind.__module__}.{kind.__qualname__}": n for kind, n in types.items()},
    }


def keep_writing(file: Path, every_s: float) -> None:
    """Append a line to the file again and again."""
    while True:
        time.sleep(every_s)
        with file.open("a") as lines:
            print(json.dumps(held()), file=lines)


def main() -> None:
    """Start the thread that counts, then run the command of the other arguments."""
    file, every_s = Path(sys.argv[1]), float(sys.argv[2])
    del sys.argv[1:3]
    threading.Thread(target=keep_writing, args=(file, every_s), daemon=True).start()
    from proxy.__main__ import main as sluice  # noqa: PLC0415 - it sets the process up before its imports

    sluice()


if __name__ == "__main__":
    main()
