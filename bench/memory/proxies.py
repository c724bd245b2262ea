"""The proxies under test: Sluice with the settings of a case, and the resident memory of any."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.harness import BenchError
from bench.harness.usage import peak_bytes, reset_peak, resident_bytes
from bench.memory import whole
from bench.memory.cgroup import Cgroup
from bench.memory.figures import Resident
from bench.running import Running
from bench.variants import DIRECT, SLUICE, Place, Variant

COMMAND: Final = Path(sys.executable).with_name("sluice")
DRAIN_MS: Final = 1000
"""Must be less than the time after which `Program.stop` sends SIGKILL."""


@dataclass(frozen=True, slots=True)
class SluiceSetup:
    """Settings of a Sluice. `whole`: with a policy that needs each Produce whole. `within`: its memory limit."""

    memory: Mapping[str, int | float] = field(default_factory=dict)
    limits: Mapping[str, int | float] = field(default_factory=dict)
    whole: bool = False
    within: Cgroup | None = None

    def variant(self, name: str = SLUICE) -> Variant:
        """Return it as a variant."""
        return Variant(name, "", self.command)

    def command(self, place: Place) -> list[str]:
        """Return the command of `sluice run` with these settings."""
        return self.sluice(place, "run")

    def sluice(self, place: Place, verb: str) -> list[str]:
        """Return any of its commands, with the same settings and the same limit."""
        file = place.write("sluice.yaml", json.dumps(self.config(place)))  # JSON is YAML
        path = whole.install(place.dir) if self.whole else os.environ.get("PYTHONPATH", "")
        inside = self.within.entering() if self.within else []
        return [*inside, "env", f"PYTHONPATH={path}", str(COMMAND), verb, "--config", file]

    def config(self, place: Place) -> dict[str, object]:
        """Return its configuration."""
        made: dict[str, object] = {
            "upstream": {"bootstrap_servers": [f"127.0.0.1:{place.upstream}"]},
            "listen": {"address": "127.0.0.1", "port": place.listen, "nodes": "1"},
            "limits": dict(self.limits),
            "drain": {"timeout_ms": DRAIN_MS},
        }
        if self.memory:
            made["memory"] = dict(self.memory)
        if self.whole:
            made["policies"] = [{"use": whole.NAME}]
        return made


class Watch:
    """The resident memory of a proxy from now on; without a proxy there is none."""

    def __init__(self, proxy: Running) -> None:
        self._proxy = proxy
        if proxy.pid is not None:
            self._base_bytes = resident_bytes(proxy.pid)
            reset_peak(proxy.pid)

    def resident(self) -> Resident | None:
        """Return base and peak; the peak of a proxy that has ended is infinite."""
        pid = self._proxy.pid
        if pid is None:
            return None
        return Resident(self._base_bytes, math.inf if self._proxy.ended else peak_bytes(pid))


def no_proxy() -> Variant:
    """Return the variant without a proxy."""
    return Variant(DIRECT, "", None)


def said_by(command: list[str]) -> str:
    """Return the output of a command.

    Raises:
        BenchError: it failed; the text has its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
