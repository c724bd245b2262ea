"""`python -m bench.soak`: mixed load for a long time, and whether Sluice leaks; writes its section of RESULTS.md.

The compiled build is loaded, or with `--pure` the source. The load is small: run it with `nice` beside other work. The
exit code is 1 if memory or objects grow, or a client or Sluice had a problem.
"""

import math
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.goals import tell
from bench.harness import ROOT, BenchError
from bench.harness.command import options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import describe, load_average, today
from bench.harness.markdown import write_section
from bench.measure import Bench, running_bench
from bench.running import Running
from bench.soak.load import LOOPBACK, THROTTLED_RATE, running_load
from bench.soak.report import Held, Soak, between, goals, read, section
from bench.variants import SLUICE, Place, Variant, first_line, in_folder
from proxy.telemetry.history import POINTS

CONFIG: Final = """\
upstream: {{bootstrap_servers: ["127.0.0.1:{upstream}"]}}
listen: {{port: {listen}, nodes: 0-0}}
admin: {{listen: "127.0.0.1:{admin}"}}
log: {{level: error}}
policies:
  - use: quota
    config: {{quotas: [{{user: <default>, client_id: client, request_rate: {rate}}}]}}
"""
WARM_SHARE: Final = 0.1
"""The share of the time that a first load takes, which fills caches."""
MAX_WARM_S: Final = 120
MAX_SETTLE_S: Final = POINTS + 30
"""The start of the load that is not judged, half of it at most: the history of the admin server fills up."""
SCRAPE_S: Final = 10
REST_S: Final = 30
"""The most time for the sessions to end after the load: an ended side may linger for two seconds."""
SESSION: Final = "proxy.core.session.session.Session"


def target(folder: Path, every_s: float, scratch: Path) -> tuple[Variant, Path]:
    """Return a Sluice with the modules of `folder` that counts what it holds, and the file of its counts."""
    paths = Path(os.pathsep.join([str(folder), str(ROOT)]))
    python = in_folder(Path(sys.executable), paths)
    counts = scratch / "counts"

    def command(place: Place) -> list[str]:
        text = place.fill(CONFIG, admin=_admin_port(place.listen), rate=THROTTLED_RATE)
        words = ["run", "--config", place.write("soak.yaml", text)]
        return [*python, "-P", "-m", "bench.soak.counted", str(counts), str(every_s), *words]

    version = first_line([*python, "-P", "-m", "proxy", "version"])
    return Variant(f"{SLUICE}-soak", version, command, peer=False), counts


def soak(bench: Bench, variant: Variant, counts: Path, seconds: float, every_s: float) -> Soak:
    """Load it twice, for the warm-up and for `seconds`; return what it held.

    Raises:
        BenchError: it has ended, or does not count.
    """
    with bench.start_proxy(variant) as proxy:
        proxy.wait_accepting(_admin_port(proxy.port))  # it opens last
        problems, _, _ = _loaded(bench, proxy, min(MAX_WARM_S, seconds * WARM_SHARE))
        before = _at_rest(counts, every_s)
        more, began_s, ended_s = _loaded(bench, proxy, seconds)
        after = _at_rest(counts, every_s)
    loaded = between(read(counts), began_s + min(MAX_SETTLE_S, seconds / 2), ended_s)
    return Soak(before, loaded, after, [*problems, *more, *proxy.problems])


def _loaded(bench: Bench, proxy: Running, seconds: float) -> tuple[list[str], float, float]:
    """Load the proxy; return the problems, and when the load began and ended."""
    metrics = f"http://{LOOPBACK}:{_admin_port(proxy.port)}/metrics"
    with running_load(bench, proxy.port, seconds + 600) as (clients, programs):
        began_s = time.monotonic()
        _until(began_s + seconds, lambda: _scrape(metrics))
        ended_s = time.monotonic()
        problems = [*clients.problems]
        problems += [
            each.last_words("ended") for each in programs if each.process.poll() is not None
        ]
    print(
        f"{clients.connections:,} connections, {clients.requests:,} requests of threads", flush=True
    )
    if proxy.ended:
        raise BenchError("Sluice has ended under load")
    return problems, began_s, ended_s


def _admin_port(listen: int) -> int:
    """Return the port of the admin server: the third that `Running` has found free, after that of node 0."""
    return listen + 2


def _until(end_s: float, what: Callable[[], None]) -> None:
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(SCRAPE_S, left_s))
        what()


def _scrape(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a URL of our own
        answer.read()


def _at_rest(counts: Path, every_s: float) -> Held:
    """Return the counts without clients: those in which their sessions have ended, or the last after REST_S.

    Raises:
        BenchError: nothing was counted.
    """
    since_s = time.monotonic()
    while True:
        time.sleep(every_s)
        found = between(read(counts) if counts.exists() else [], since_s, math.inf)
        if found and SESSION not in found[-1].types:
            return found[-1]
        if time.monotonic() > since_s + REST_S:
            if not found:
                raise BenchError("Sluice has counted nothing")
            return found[-1]


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the soak; return the exit code."""
    parser = options("bench.soak", __doc__, minutes=30.0, every_s=5.0)
    parser.add_argument("--pure", action="store_true", help="the source, not the compiled build")
    given = parser.parse_args(arguments)
    seconds = given.minutes * 60
    with tempfile.TemporaryDirectory(prefix="sluice-soak-") as parent:
        folder = ROOT
        if not given.pure:
            if reason := missing():
                raise BenchError(reason)
            folder = Path(parent) / "wheel"
            unpack_compiled(folder)
        variant, counts = target(folder, given.every_s, Path(parent))
        if not variant.version.endswith(", pure)" if given.pure else ", compiled)"):
            raise BenchError(f"another build runs: {variant.version}")
        with running_bench() as bench:
            found = soak(bench, variant, counts, seconds, given.every_s)
    facts = {
        "date": today(),
        "load": f"{given.minutes:g} minutes",
        "load average at the end": load_average(),
        "Sluice": variant.version,
        **describe(),
    }
    write_section(given.out, "soak", section(found, facts))
    tell(goals(found))
    return 0 if all(goal.met for goal in goals(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
