"""`python -m bench.image`: size, start time and memory of the image; writes its section of bench/RESULTS.md.

The container is the one of `tests/integration/test_image.py`: read-only root, no rights, 256 MiB, with a quota, metrics
and traces. It needs root, buildah, runc, umoci and mmdebstrap (`tests/tools.sh`).
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.goals import MB
from bench.harness import BenchError
from bench.harness.command import options, prints_errors
from bench.harness.figures import spread
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, table, write_section
from bench.harness.usage import cpu_ns
from tests.support.kubernetes.image import SUITE, BuiltImage, ImageUnavailableError, built_image
from tests.support.kubernetes.image_container import EVERYTHING, ImageContainer

METHOD = """\
Made by `make bench-image`. *Ready* is the time from the start of runc to the first 200 of `/ready`, polled every 5 ms.
CPU is that of all threads of the process until then. *Resident* has the pages of Python's own files too, which several
containers of one machine share; *own* is without them."""
SECTION = "image"


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a container, and its memory at rest."""

    ready_ms: float
    cpu_ms: float
    resident_mb: float
    own_mb: float


def measure_start(image: BuiltImage, directory: Path, rest_s: float) -> Start:
    """Start a container, let it rest, and return its figures."""
    with ImageContainer(image, directory, EVERYTHING) as sluice:
        ready_ms = (time.monotonic() - sluice.started_s) * 1000
        cpu_ms = cpu_ns(sluice.pid) / 1e6
        time.sleep(rest_s)
        status = sluice.status()
        resident_kb, own_kb = (int(status[name].split()[0]) for name in ("VmRSS", "RssAnon"))
    return Start(ready_ms, cpu_ms, resident_kb * 1024 / MB, own_kb * 1024 / MB)


def section(
    starts: Sequence[Start], compressed_bytes: int, unpacked_bytes: int, facts: dict[str, str]
) -> str:
    """Return the section of RESULTS.md."""
    rows = [
        ["size, compressed", f"{compressed_bytes / MB:,.1f} MB"],
        ["size, unpacked", f"{unpacked_bytes / MB:,.1f} MB"],
        ["ready", f"{spread(each.ready_ms for each in starts).text(0)} ms"],
        ["CPU until ready", f"{spread(each.cpu_ms for each in starts).text(0)} ms"],
        ["resident at rest", f"{spread(each.resident_mb for each in starts).text(1)} MB"],
        ["of that, its own", f"{spread(each.own_mb for each in starts).text(1)} MB"],
    ]
    return "\n\n".join(["## The image", METHOD, table(["", ""], rows), facts_line(facts)])


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 if the image cannot be built or does not start."""
    given = options("bench.image", __doc__, starts=9, rest_s=2.0).parse_args(arguments)
    try:
        image = built_image()
    except ImageUnavailableError as error:
        raise BenchError(str(error)) from error
    with tempfile.TemporaryDirectory() as folder:
        starts = [
            measure_start(image, Path(folder, str(number)), given.rest_s)
            for number in range(given.starts)
        ]
    unpacked = sum(each.lstat().st_size for each in image.root.rglob("*") if each.is_file())
    base = f"Debian {SUITE}, whose Python the image has"
    facts = {"date": today(), "starts": str(given.starts), "base": base, **describe()}
    write_section(given.out, SECTION, section(starts, image.compressed_bytes, unpacked, facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
