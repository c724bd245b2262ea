"""Secrets that are searched for in all that a Sluice writes, in each form that one can take there.

A form is the secret itself, its base64 at any offset of a longer text, its hex digits, or its percent-encoding.
`Loud.outputs` gathers the text: files, answers of the admin server, output of commands.
"""

import base64
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from tests.support.processes.command_line import invoke
from tests.support.processes.sluice_process import SluiceProcess

SECONDS: Final = 20
FAMILIES: Final = ["entity", "api", "instance", "topic", "capture"]


def new_secret() -> str:
    """Return 32 characters; some are others in percent-encoding, none has a meaning in a Kafka properties file."""
    return f"~{secrets.token_hex(14)}/+="


def forms(secret: bytes) -> set[bytes]:
    """Return the forms of a secret."""
    found = {secret, secret.hex().encode(), secret.hex().upper().encode()}
    found.add(quote(secret, safe="").encode())
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + secret).rstrip(b"=")[:-1]
        aligned = encoded[
            -(-offset * 8 // 6) :
        ]  # without the characters that share bits with what is before
        found |= {aligned, aligned.replace(b"+", b"-").replace(b"/", b"_")}
    return found


@dataclass(slots=True)
class Canaries:
    """Secrets by a name that a failure shows in their place."""

    known: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, secret: bytes | str) -> None:
        """Search for this one too."""
        data = secret.encode() if isinstance(secret, str) else secret
        assert len(data) >= 16, f"{name} is so short that it may be found by chance"
        self.known[name] = data

    def found_in(self, outputs: dict[str, bytes]) -> list[tuple[str, str]]:
        """Return (secret, output) for each that is there in some form."""
        forms_of = {name: forms(secret) for name, secret in self.known.items()}
        return [
            (name, place)
            for place, data in outputs.items()
            for name, shapes in forms_of.items()
            if any(shape in data for shape in shapes)
        ]


def files_below(directory: Path) -> dict[str, bytes]:
    """Return all files of a folder, with their names, which are text too."""
    return {
        str(path): str(path).encode() + path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def answers_of(socket: Path) -> dict[str, bytes]:
    """Return what the admin server answers to each GET that it documents, and the first event of its stream."""
    found = {}
    transport = httpx.HTTPTransport(uds=str(socket))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=SECONDS) as client:
        paths = client.get("/openapi.json").json()["paths"]
        for path in (each for each, methods in paths.items() if "get" in methods):
            if path == "/v1/events":
                with client.stream("GET", path) as stream:
                    found[path] = next(stream.iter_bytes())
            else:
                answer = client.get(path)
                assert answer.status_code in (200, 404, 503), (path, answer.text)
                found[path] = answer.content
    return found


def outputs_of(file: Path, socket: Path, **environ: str) -> dict[str, bytes]:
    """Return the output of the commands that show the settings or the state of a running Sluice."""
    found = {}
    for command in (
        ("check", "--connect", "-c", file),
        ("check", "--connect", "--json", "-c", file),
        ("config", "-c", file),
        *(("ctl", each, "--socket", socket) for each in ("status", "connections", "tasks")),
    ):
        ran = invoke(*command, **environ)
        found[f"sluice {' '.join(map(str, command[:2]))}"] = ran.output_bytes
    return found


@dataclass(frozen=True, slots=True)
class Loud:
    """A Sluice that writes as much as it can, and the secrets that pass through it."""

    sluice: SluiceProcess
    canaries: Canaries
    socket: Path

    def outputs(self) -> dict[str, bytes]:
        """Drain it, and return all that it has written and answered."""
        live = answers_of(self.socket) | outputs_of(self.sluice.file, self.socket)
        self.sluice.stop()
        return live | files_below(self.sluice.directory)


def loud(upstream: str, directory: Path, **more: Any) -> Loud:
    """Return a Sluice that is not started; `more` is for SluiceProcess."""
    socket = directory / "admin.sock"
    written_to = directory / "sluice" / "written"
    settings = {
        "log": {"level": "debug"},
        "admin": {"socket": str(socket)},
        "traces": {
            "export": "file",
            "file": str(written_to / "traces.json"),
            "sample_every_requests": 1,
            "slow_ms": 1,
        },
        "usage_log": {"directory": str(written_to / "usage"), "families": FAMILIES},
        "audit": {"file": str(written_to / "audit.jsonl")},
    }
    written_to.mkdir(parents=True)
    sluice = SluiceProcess(upstream, directory / "sluice", settings=settings, **more)
    return Loud(sluice, Canaries(), socket)
