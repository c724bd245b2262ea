"""The proxies that are measured: Sluice in the settings of a case, or any variant that is installed.

Rules: each is a process of its own on one core and ends with its case. A Sluice must end with exit code 0 and without
a traceback in its log, whatever was done to it; if not, that is one of its problems.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from bench.build import BenchError
from bench.memory import whole
from bench.memory.figures import Resident
from bench.memory.resident import forget_most, most_resident_bytes, resident_bytes
from bench.processes import Program, cores, free_ports, wait_accepting
from bench.variants import DIRECT, SLUICE, Place, Variant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.memory.cgroup import Cgroup

Settings = dict[str, "int | float | str"]
COMMAND: Final = Path(sys.executable).with_name("sluice")
FIRST_PORT: Final = 22000
DRAIN_MS: Final = 1000
"""Less than `Program.stop` waits before it insists."""


@dataclass(frozen=True, slots=True)
class SluiceSetup:
    """Settings of one Sluice. `whole`: with a policy that wants each Produce whole. `within`: its memory limit."""

    memory: Mapping[str, int | float] = field(default_factory=dict)
    limits: Mapping[str, int | float] = field(default_factory=dict)
    whole: bool = False
    within: Cgroup | None = None

    def variant(self, name: str = SLUICE) -> Variant:
        """What starts it."""
        return Variant(name, "", self.command)

    def command(self, place: Place) -> list[str]:
        """`sluice run` with a file of these settings."""
        return self.sluice(place, "run")

    def sluice(self, place: Place, verb: str) -> list[str]:
        """Any of its commands, in the same settings and below the same limit."""
        file = place.write("sluice.yaml", json.dumps(self.config(place)))  # JSON is YAML
        path = whole.install(place.dir) if self.whole else os.environ.get("PYTHONPATH", "")
        inside = self.within.entering() if self.within else []
        return [*inside, "env", f"PYTHONPATH={path}", str(COMMAND), verb, "--config", file]

    def config(self, place: Place) -> dict[str, object]:
        """What its file says."""
        made: dict[str, object] = {
            "upstream": {"bootstrap_servers": [f"127.0.0.1:{place.upstream}"]},
            "listen": {"address": "127.0.0.1", "port": place.listen, "nodes": "1"},
            "limits": dict(self.limits),
            "drain": {"timeout_ms": DRAIN_MS},
        }
        if self.memory and has_pool():
            made["memory"] = dict(self.memory)
        if self.whole:
            made["policies"] = [{"use": whole.NAME}]
        return made


@cache
def has_pool() -> bool:
    """Whether this Sluice knows of a memory pool: an older one is measured without."""
    said = subprocess.run(
        [str(COMMAND), "config", "--schema"], capture_output=True, text=True, check=True
    ).stdout
    return "memory" in json.loads(said)["$defs"]["Config"]["properties"]


class Running:
    """A proxy before the broker at 127.0.0.1:`upstream`; for `direct` there is none, and `port` is the broker's."""

    def __init__(self, variant: Variant, upstream: int, folder: Path) -> None:
        self.name = variant.name
        self.problems: list[str] = []
        self.port = upstream
        self._program: Program | None = None
        if variant.command is None:
            return
        self.port = free_ports(3, FIRST_PORT)
        folder.mkdir(parents=True, exist_ok=True)
        self.place = Place(self.port, upstream, folder)
        self.log = folder / "log"
        self._program = Program(variant.command(self.place), cores()[0], self.log)
        wait_accepting(self._program, self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The root of its processes; None for `direct`."""
        return self._program.pid if self._program else None

    @property
    def ended(self) -> bool:
        """Whether it is gone though nobody ended it."""
        return self._program is not None and self._program.process.poll() is not None

    def stop(self) -> None:
        """End it, and look how it took that."""
        program, self._program = self._program, None
        if program is None:
            return
        was_gone = program.process.poll() is not None
        program.stop()
        code = program.process.returncode
        if was_gone:
            self.problems.append(f"ended by itself with {code}: {program.last_words('ended')}")
        elif self.name.startswith(SLUICE):
            if code:
                self.problems.append(f"exit code {code}")
            if "Traceback" in self.log.read_text(errors="replace"):
                self.problems.append(program.last_words("wrote a traceback"))


class Watch:
    """Looks at a proxy's memory from now on."""

    def __init__(self, proxy: Running) -> None:
        assert proxy.pid is not None, "there is no proxy"
        self._proxy = proxy
        self._pid = proxy.pid
        self._base_bytes = resident_bytes(self._pid)
        forget_most(self._pid)

    def resident(self) -> Resident:
        """What was seen. Of a proxy that is gone the most is infinite: nobody knows why it went."""
        most = math.inf if self._proxy.ended else most_resident_bytes(self._pid)
        return Resident(self._base_bytes, most)


def nothing_between() -> Variant:
    """The broker itself."""
    return Variant(DIRECT, "", None)


def said_by(command: list[str]) -> str:
    """What a command prints.

    Raises:
        BenchError: it failed; with what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
