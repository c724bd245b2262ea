"""`python -m bench.tls`: both builds of Sluice and HAProxy terminate the same TLS; writes its section of RESULTS.md.

The load generator speaks no TLS: for each proxy, an HAProxy on the load's core turns its connections into TLS 1.3.
The proxy under test decrypts, and speaks plaintext to the broker. Both have the same certificate (P-256) and
connection counts. Everything else is as in `python -m bench`.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.figures import Samples
from bench.goals import Goal, goal_table, min_goal, tell
from bench.harness import BenchError
from bench.harness.command import options, prints_errors
from bench.harness.compiled_build import missing, unpack_compiled
from bench.harness.machine import cores, describe, today
from bench.harness.markdown import columns, facts_line, write_section
from bench.harness.ports import free_ports
from bench.harness.processes import Program
from bench.measure import Bench, measure, running_bench
from bench.running import Running
from bench.shapes import Shape, choose
from bench.variants import COMPILED, HAPROXY, SLUICE, Place, Variant, first_line, in_folder

SHAPES = "small-10,small-100,kb-16,fetch-10,produce-10"
MIN_EFFICIENCY = 0.7
AIM = 0.9
"""Of the compiled build."""
SLUICE_CONFIG = """\
upstream: {{bootstrap_servers: ["127.0.0.1:{upstream}"]}}
listen: {{port: {listen}, nodes: 0-0, tls: {{cert_file: {dir}/tls.crt, key_file: {dir}/tls.key}}}}
"""
HAPROXY_CONFIG = """\
global
  nbthread 1
  maxconn 8000
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen bench
  bind 127.0.0.1:{listen} {bind}
  server next 127.0.0.1:{upstream} {server}
"""
METHOD = """\
Made by `make bench-tls`. The proxy terminates TLS 1.3 (P-256, the cipher that both sides prefer) and speaks plaintext
to the broker. An HAProxy of its own, on the core of the load generator, makes the load's connections TLS. CPU is that
of the proxy alone; *efficiency* is HAProxy's CPU divided by Sluice's in the same round."""


def certificate(folder: Path) -> None:
    """Write a certificate and its key, each alone and both in one file. Raises BenchError without openssl."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    names = ["-nodes", "-subj", "/CN=127.0.0.1", "-days", "2"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    try:
        subprocess.run([*command, *names, *files], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"openssl makes no certificate: {error}") from error
    both = (folder / "tls.crt").read_text() + (folder / "tls.key").read_text()
    (folder / "both.pem").write_text(both)


def sluice(name: str, command: list[str]) -> Variant:
    """Return Sluice with TLS for clients; `command` is what runs this build."""

    def start(place: Place) -> list[str]:
        certificate(place.dir)
        return [*command, "run", "--config", place.write("tls.yaml", place.fill(SLUICE_CONFIG))]

    return Variant(name, first_line([*command, "version"]), start, peer=False)


def haproxy(command: str) -> Variant:
    """Return HAProxy with TLS for clients."""

    def start(place: Place) -> list[str]:
        certificate(place.dir)
        text = place.fill(HAPROXY_CONFIG, bind=f"ssl crt {place.dir}/both.pem", server="")
        return [command, "-db", "-f", place.write("haproxy.cfg", text)]

    return Variant(HAPROXY, first_line([command, "-v"]), start)


class Secured(Running):
    """A proxy under test with an HAProxy in front that makes connections TLS; `port` is the latter's."""

    def __init__(self, variant: Variant, upstream: int, folder: Path, command: str) -> None:
        super().__init__(variant, upstream, folder)
        front = Place(free_ports(), self.port, folder)
        text = front.fill(HAPROXY_CONFIG, bind="", server="ssl verify none")
        config = front.write("front.cfg", text)
        self._front = Program([command, "-db", "-f", config], cores()[1], folder / "front.log")
        self._front.wait_accepting(front.listen)
        self.port = front.listen

    def stop(self) -> None:
        """End both."""
        self._front.stop()
        super().stop()


class TlsBench(Bench):
    """The bench with `Secured` proxies."""

    def start_proxy(self, variant: Variant) -> Running:
        """Start a proxy and what makes connections to it TLS; return when both accept connections."""
        self._count += 1
        folder = self.folder / f"{self._count}-{variant.name}"
        return Secured(variant, self.broker_port, folder, _haproxy_path())


def variants(wheel: Path | None) -> list[Variant]:
    """Return the source, the compiled build unpacked in `wheel` (None: not), and HAProxy.

    Raises:
        BenchError: HAProxy is not installed.
    """
    program = Path(sys.executable).with_name("sluice")
    found = [sluice(SLUICE, [str(program)])]
    if wheel is not None:
        found.append(sluice(COMPILED, in_folder(program, wheel)))
    return [*found, haproxy(_haproxy_path())]


def section(samples: Samples, shapes: list[Shape], facts: dict[str, str]) -> str:
    """Return the section of RESULTS.md."""
    rows = [(shape, name) for shape in shapes for name in (SLUICE, COMPILED, HAPROXY)]

    def text(shape: Shape, name: str, what: str, digits: int) -> str:
        found = samples.of(shape.name, name, lambda each: getattr(each, what))
        return "" if found is None else found.text(digits)

    parts = [
        "## TLS",
        METHOD,
        goal_table(goals(samples, shapes)),
        columns(
            rows,
            [
                ("", lambda row: row[0].title),
                ("", lambda row: row[1]),
                ("CPU µs/request", lambda row: text(*row, "cpu_us", 2)),
                ("requests/s", lambda row: text(*row, "requests_per_second", 0)),
                ("MB/s", lambda row: text(*row, "megabytes_per_second", 1)),
                ("p50 µs", lambda row: text(*row, "p50_us", 0)),
                ("p99 µs", lambda row: text(*row, "p99_us", 0)),
            ],
        ),
        facts_line(facts),
    ]
    return "\n\n".join(parts)


def goals(samples: Samples, shapes: list[Shape]) -> list[Goal]:
    """Return a goal for each build and shape."""
    return [
        replace(
            min_goal(
                f"{name} against HAProxy with TLS, {shape.title}",
                "",
                samples.efficiency(shape.name, name, HAPROXY),
                MIN_EFFICIENCY,
            ),
            aim=aim,
        )
        for name, aim in ((COMPILED, AIM), (SLUICE, None))
        for shape in shapes
    ]


@prints_errors
def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return 1 if Sluice could not be measured."""
    parser = options("bench.tls", __doc__, rounds=5, seconds=1.0, seed=1)
    given = parser.parse_args(arguments)
    shapes = choose(SHAPES)
    reason = missing()
    with tempfile.TemporaryDirectory(prefix="sluice-tls-") as parent:
        wheel = None if reason else Path(parent) / "wheel"
        if wheel is not None:
            unpack_compiled(wheel)
        found = variants(wheel)
        with running_bench(made=TlsBench) as bench:
            samples = measure(bench, found, shapes, given.rounds, given.seconds, 0.3, given.seed)
    versions = {each.name: each.version for each in found}
    if reason:
        versions["not compiled"] = reason
    facts = {"date": today(), "rounds": f"{given.rounds} of {given.seconds:g} s each"}
    write_section(given.out, "tls", section(samples, shapes, {**facts, **describe(), **versions}))
    tell(goals(samples, shapes))
    return 1 if any(name != HAPROXY for _, name in samples.failures) else 0


def _haproxy_path() -> str:
    path = shutil.which("haproxy")
    if path is None:
        raise BenchError("haproxy is not installed")
    return path


if __name__ == "__main__":
    sys.exit(main())
