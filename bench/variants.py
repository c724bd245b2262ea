"""A variant is one proxy to measure: its name in the tables, its version, and its command.

Those of Sluice are of this checkout: the source and the compiled build, each without a policy and with a quota.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.harness import BenchError

DIRECT, SLUICE, RELAY, HAPROXY = "direct", "sluice", "relay", "haproxy"
SLUICE_QUOTA = "sluice+quota"
COMPILED = "sluice-compiled"
COMPILED_QUOTA = "sluice-compiled+quota"
COMPILED_FEATURES = "sluice-compiled+features"
KROXYLICIOUS = "kroxylicious"
"""A peer whose name begins so is one that goals are set against."""

QUOTA_CONFIG = """\
upstream: {{bootstrap_servers: ["127.0.0.1:{upstream}"]}}
listen: {{port: {listen}, nodes: {nodes}}}
policies:
  - use: quota
    config: {{quotas: [{{user: <default>, request_rate: 1000000000}}]}}
"""
FEATURES_CONFIG = f"""\
{QUOTA_CONFIG}\
traces: {{{{export: file, file: {{dir}}/traces.jsonl, sample_every_requests: 1000}}}}
usage_log: {{{{directory: {{dir}}/usage-log, families: [entity, api, instance, topic]}}}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one proxy runs: its ports and a folder of its own."""

    listen: int
    upstream: int
    dir: Path

    def fill(self, text: str, **more: object) -> str:
        """Return `text` with {listen}, {upstream}, {dir} and `more` filled in."""
        return text.format(listen=self.listen, upstream=self.upstream, dir=self.dir, **more)

    def write(self, name: str, text: str) -> str:
        """Write a file in the folder; return its path."""
        path = self.dir / name
        path.write_text(text)
        return str(path)


@dataclass(frozen=True, slots=True)
class Variant:
    """A proxy to measure. `command` is None for `direct`; a `peer` may fail to start.

    One that is `given` on the command line is warmed up.
    """

    name: str
    version: str
    command: Callable[[Place], list[str]] | None
    peer: bool = True
    given: bool = False


NO_PROXY = Variant(DIRECT, "load and broker alone", None)


def first_line(command: list[str]) -> str:
    """Return the first line of a program's version output, or `unknown`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return "unknown"
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    if not said or done.returncode:
        return "unknown"
    return said[0].strip().replace(command[0], Path(command[0]).name)  # the report has no paths


def choose_variants(found: list[Variant], names: str) -> list[Variant]:
    """Return the variants named in a comma-separated list; all if it is empty. One that is missing is left out.

    Raises:
        BenchError: none of them is a proxy.
    """
    wanted = [name for name in names.split(",") if name]
    missing = [name for name in wanted if name not in {variant.name for variant in found}]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    chosen = [variant for variant in found if not wanted or variant.name in wanted]
    if not any(variant.name != DIRECT for variant in chosen):
        raise BenchError("nothing to measure: no proxy among the variants")
    return chosen


def both_builds(wheel: Path | None) -> list[Variant]:
    """Return the source, and the compiled build unpacked in `wheel` (None: not), without and with a quota."""
    program = Path(sys.executable).with_name("sluice")
    if not program.exists():
        return []
    version = first_line([str(program), "version"])
    found = [
        Variant(SLUICE, version, sluice_command(program), peer=False),
        _with_quota(SLUICE_QUOTA, quota_command(program)),
    ]
    if wheel is not None:
        found.append(compiled(program, wheel))
        found.append(_with_quota(COMPILED_QUOTA, _moved(quota_command(program), program, wheel)))
    return found


def _with_quota(name: str, command: Callable[[Place], list[str]]) -> Variant:
    return Variant(name, "with a quota that no client reaches", command, peer=False)


def sluice_command(path: Path, nodes: str = "0-0") -> Callable[[Place], list[str]]:
    """Return the command of Sluice without a configuration file, for one node."""
    return lambda place: [
        *(str(path), "run", "--upstream", f"127.0.0.1:{place.upstream}"),
        *("--listen", f"127.0.0.1:{place.listen}", "--nodes", nodes),
    ]


def quota_command(path: Path) -> Callable[[Place], list[str]]:
    """Return the same with policy `quota`, which throttles no client."""
    return _configured(path, QUOTA_CONFIG, "0-0")


def _configured(path: Path, config: str, nodes: str) -> Callable[[Place], list[str]]:
    return lambda place: [
        *(str(path), "run", "--config"),
        place.write("sluice.yaml", place.fill(config, nodes=nodes)),
    ]


def in_folder(program: Path, folder: Path) -> list[str]:
    """Return the beginning of a command that runs this `sluice` with the modules of `folder`."""
    return [shutil.which("env") or "env", f"PYTHONPATH={folder}", str(program)]


def compiled(program: Path, folder: Path, nodes: str = "0-0") -> Variant:
    """Return the variant of an unpacked compiled wheel. Raises BenchError if it is not compiled."""
    version = first_line([*in_folder(program, folder), "version"])
    if not version.endswith(", compiled)"):
        raise BenchError(f"the wheel in {folder} is not compiled: {version}")
    return Variant(
        COMPILED, version, _moved(sluice_command(program, nodes), program, folder), peer=False
    )


def with_features(program: Path, folder: Path, nodes: str) -> Variant:
    """Return the compiled build with that quota, sampled traces, and usage by topic."""
    return Variant(
        COMPILED_FEATURES,
        "with a quota that no client reaches, sampled traces, and usage by topic",
        _moved(_configured(program, FEATURES_CONFIG, nodes), program, folder),
        peer=False,
    )


def _moved(
    source: Callable[[Place], list[str]], program: Path, folder: Path
) -> Callable[[Place], list[str]]:
    """Return the same command with the modules of `folder`."""
    return lambda place: in_folder(program, folder) + source(place)[1:]
