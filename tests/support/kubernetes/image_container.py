"""A container of the image, run by runc as Kubernetes' restricted pod security demands: no rights, nothing to write.

The process is the image's own (entry point, variables, user). Its network is the test's.
"""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bench.harness.ports import free_ports
from tests.support.kubernetes.image import BuiltImage
from tests.support.kubernetes.runc import run_bundle

MEMORY_BYTES: Final = 256 << 20
NODES: Final = 3
SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.005
EVERYTHING: Final[Mapping[str, object]] = {
    "log": {"format": "json"},
    "traces": {"export": "otlp"},
    "policies": [
        {"use": "quota", "config": {"quotas": [{"user": "<default>", "request_rate": 1000}]}}
    ],
}
"""Quota and traces; metrics are on with the admin server."""
_NAMESPACES: Final = ("pid", "ipc", "uts", "mount")


@dataclass(slots=True)
class ImageContainer:
    """One container.

    `settings` are sections of its configuration, `words` replace the entry point, `environ` is added to the image's.
    """

    image: BuiltImage
    directory: Path
    settings: Mapping[str, object] = field(default_factory=dict)
    words: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    port: int = field(init=False)
    started_s: float = 0.0

    def __post_init__(self) -> None:
        self.port = free_ports("127.0.0.1", NODES + 2)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def name(self) -> str:
        """Return its id, unique on this machine."""
        return f"sluice-image-{os.getpid()}-{self.port}"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        (self.directory / "etc").mkdir(parents=True)
        (self.directory / "etc/sluice.yaml").write_text(json.dumps(self._sections()))
        (self.directory / "config.json").write_text(json.dumps(self._config()))
        self.started_s = time.monotonic()
        self.process = run_bundle(self.directory, self.name, self.directory / "log")
        while self.ask("/ready")[0] != 200:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < self.started_s + SECONDS, self.said()
            time.sleep(POLL_SECONDS)

    def ask(self, path: str) -> tuple[int, str]:
        """Return status and body of an answer of its admin server; 0 before it listens."""
        url = f"http://127.0.0.1:{self.port + NODES + 1}{path}"
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def run_inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a further process in it, as `kubectl exec` does."""
        return subprocess.run(
            ["runc", "exec", self.name, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def status(self) -> Mapping[str, str]:
        """Return what the kernel says of its first process: /proc/PID/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def pid(self) -> int:
        """Return the id of its first process, as the host sees it."""
        return int((self.directory / "pid").read_text())

    def said(self) -> str:
        """Return its log."""
        return (self.directory / "log").read_text(errors="replace")

    def stop(self) -> int:
        """SIGTERM; return the exit code."""
        assert self.process is not None, "not started"
        subprocess.run(["runc", "kill", self.name, str(int(signal.SIGTERM))], check=True)
        return self.process.wait(SECONDS)

    def kill(self) -> None:
        """End and remove it."""
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, check=False)
        if self.process is not None:
            self.process.wait(SECONDS)

    def _sections(self) -> dict[str, object]:
        return {
            "upstream": {"bootstrap_servers": ["127.0.0.1:1"]},
            "listen": {"port": self.port, "nodes": f"0-{NODES - 1}"},
            "admin": {"listen": f"127.0.0.1:{self.port + NODES + 1}"},
            **self.settings,
        }

    def _config(self) -> dict[str, Any]:
        """Return what umoci made of the image, with its root read-only and its rights taken away."""
        config: dict[str, Any] = json.loads((self.image.root.parent / "config.json").read_text())
        nothing: list[str] = []
        kinds = ("bounding", "effective", "inheritable", "permitted", "ambient")
        words = [*self.words, *self.image.command] if self.words else config["process"]["args"]
        config["process"] |= {
            "terminal": False,
            "args": [*words, "--config", "/etc/sluice/sluice.yaml"],
            "env": [*config["process"]["env"], *(f"{k}={v}" for k, v in self.environ.items())],
            "capabilities": dict.fromkeys(kinds, nothing),
            "noNewPrivileges": True,
        }
        config["root"] = {"path": str(self.image.root.resolve()), "readonly": True}
        config["mounts"] = [
            *config["mounts"],
            {
                "destination": "/etc/sluice",
                "type": "bind",
                "source": str(self.directory / "etc"),
                "options": ["rbind", "ro"],
            },
        ]
        config["linux"] = {
            "namespaces": [{"type": each} for each in _NAMESPACES],
            "cgroupsPath": f"/{self.name}",
            "resources": {"memory": {"limit": MEMORY_BYTES, "swap": MEMORY_BYTES}},
        }
        return config
