"""A variant is one proxy to measure: its name in the tables, its version, and its command."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DIRECT, SLUICE, RELAY, HAPROXY = "direct", "sluice", "relay", "haproxy"
SLUICE_QUOTA = "sluice+quota"
COMPILED = "sluice-compiled"
COMPILED_QUOTA = "sluice-compiled+quota"
KROXYLICIOUS = "kroxylicious"
"""A peer whose name begins so is one that goals are set against."""


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
