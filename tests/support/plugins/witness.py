"""A policy for tests: it writes the identity of each request's client to a file.

`install` makes it known to a Sluice started with the variables it returns, as a third party's package would be: by an
entry point. `Sightings` reads the file while Sluice runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import yaml

from policies.api import FORWARD, Forward, Host, Peer, Policy, Request
from tests.support.processes.sluice_process import SluiceProcess

ROOT: Final = Path(__file__).resolve().parents[3]


class WitnessConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to write, and the caps on versions by API key."""

    file: str
    max_versions: dict[int, int] = {}


class Witness(Policy):
    """Lets everything pass."""

    Config = WitnessConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, WitnessConfig)
        self.max_versions = config.max_versions
        self._file = Path(config.file).open("ab", buffering=0)  # noqa: SIM115 - until `close`

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Write one line, before the request is forwarded."""
        seen = Sighting(
            peer.session_id,
            peer.port,
            peer.client_id,
            request.api.name,
            peer.user,
            peer.principal_source,
            request.api_version,
        )
        self._file.write(msgspec.json.encode(seen) + b"\n")
        return FORWARD

    def close(self) -> None:
        """The process ends."""
        self._file.close()


class Sighting(NamedTuple):
    """One request and its client."""

    session_id: int
    port: int
    client_id: str
    api: str
    user: str
    source: str
    version: int

    @property
    def principal(self) -> tuple[str, str]:
        """User and source."""
        return self.user, self.source


@dataclass(frozen=True, slots=True)
class Sightings:
    """The lines that a Witness wrote, in order."""

    file: Path

    def all(self) -> list[Sighting]:
        """Return all lines."""
        if not self.file.exists():
            return []
        lines = self.file.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Sighting) for line in lines]

    def of_port(self, port: int, since: int) -> list[Sighting]:
        """Return the lines of the client at this local port, without the first `since` of all.

        An earlier client may have had the same port.
        """
        return [each for each in self.all()[since:] if each.port == port]

    def of_client(self, client_id: str) -> list[Sighting]:
        """Return the lines of this client id."""
        return [each for each in self.all() if each.client_id == client_id]


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A Sluice with a witness in its chain."""

    sluice: SluiceProcess
    seen: Sightings


def install(
    directory: Path, max_versions: Mapping[int, int] | None = None
) -> tuple[dict[str, str], Sightings]:
    """Return the variables for a Sluice that has the witness in its chain, and the reader of its file."""
    package = directory / "witness"
    info = package / "witness-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: witness\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sluice.policies]\nwitness = tests.support.plugins.witness:Witness\n"
    )
    file = package / "seen.jsonl"
    paths = [str(package), str(ROOT), os.environ.get("PYTHONPATH", "")]
    config = {
        "file": str(file),
        "max_versions": {int(key): most for key, most in (max_versions or {}).items()},
    }
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SLUICE_POLICIES": yaml.safe_dump([{"use": "witness", "config": config}]),
    }
    return variables, Sightings(file)
