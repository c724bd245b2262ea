"""`sluice run` as a process of its own, as a user starts it.

Its log goes to a file. `stop` asks it to drain (SIGTERM) and insists on exit code 0 and a log without a traceback;
`kill` is for tests of a crash. The ports are chosen once, so that a process started again listens where its forerunner
did.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.harness.ports import free_ports
from bench.harness.processes import wait_accepting

START_TIMEOUT_SECONDS: Final = 240.0
STOP_TIMEOUT_SECONDS: Final = 240.0
COMMAND: Final = Path(sys.executable).with_name("sluice")
NODES: Final = 8
DEFAULT_NODES: Final = 32
"""Of a configuration that does not say which (`listen.nodes`)."""


@dataclass(slots=True)
class SluiceProcess:
    """A Sluice before `upstream` (host:port, comma-separated); node n listens on `port` + 1 + n.

    `upstream_settings` and `listen_settings` are further keys of these sections of its configuration; `advertise` is
    the host clients are told.
    `variables` are SLUICE_ variables of its environment, `descriptors` its limit of open files. `stderr` is a
    descriptor for its log in place of the file, or a shell's word for what becomes of it (">&-"). `settings` are
    further sections of its configuration, which `reload` changes. `config` is a file that has everything but the two
    addresses.
    """

    upstream: str
    directory: Path
    upstream_settings: dict[str, object] = field(default_factory=dict)
    listen_settings: dict[str, object] = field(default_factory=dict)
    advertise: str = "127.0.0.1"
    address: str = "127.0.0.1"
    variables: dict[str, str] = field(default_factory=dict)
    descriptors: int | None = None
    stderr: int | str | None = None
    settings: dict[str, object] = field(default_factory=dict)
    config: Path | None = None
    port: int = field(init=False)
    process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    starts: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.port = free_ports(self.address, 1 + (NODES if self.config is None else DEFAULT_NODES))
        self.directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """Return the value of bootstrap.servers for clients."""
        return f"{self.advertise}:{self.port}"

    @property
    def log(self) -> Path:
        """Return the path of the process's log since its last start."""
        return self.directory / f"sluice-{self.starts}.log"

    @property
    def file(self) -> Path:
        """Its configuration, if it has further settings of any kind."""
        return self.directory / "sluice.yaml"

    @property
    def pid(self) -> int:
        """The running process."""
        assert self.process is not None, "Sluice does not run"
        return self.process.pid

    def node_port(self, node_id: int) -> int:
        """Where broker `node_id` is reached."""
        return self.port + 1 + node_id

    def start(self) -> None:
        """Starts it and waits until its bootstrap port accepts."""
        assert self.process is None, "Sluice runs already"
        self.starts += 1
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*self._limited(), COMMAND, "run", *self._arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=self.stderr if isinstance(self.stderr, int) else subprocess.STDOUT,
                env={
                    key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")
                }
                | self.variables,
            )
        wait_accepting(self.process, self.address, self.port, self.said, START_TIMEOUT_SECONDS)

    def reload(self, **sections: object) -> None:
        """Changes these sections of its configuration, sends SIGHUP and returns at once."""
        assert self.process is not None, "Sluice does not run"
        self.settings |= sections
        self._write_settings()
        self.process.send_signal(signal.SIGHUP)

    def terminate(self) -> None:
        """Asks it to drain and returns at once."""
        assert self.process is not None, "Sluice does not run"
        self.process.send_signal(signal.SIGTERM)

    def await_exit(self) -> None:
        """Waits for the end of a drain; exit code 0 and no traceback must be seen."""
        assert self.process is not None, "Sluice does not run"
        try:
            code = self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"Sluice does not end after SIGTERM: {self.said()}") from None
        self.process = None
        assert code == 0, f"Sluice ended with {code}: {self.said()}"
        assert "Traceback" not in self.said(), self.said()

    def stop(self) -> None:
        """Drains it; does nothing when it does not run."""
        if self.process is not None:
            self.terminate()
            self.await_exit()

    def kill(self) -> None:
        """SIGKILL: a crash."""
        assert self.process is not None, "Sluice does not run"
        self.process.kill()
        self.process.wait()
        self.process = None

    def said(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace")

    def _limited(self) -> list[str]:
        """Return the words before the command that limit its descriptors or redirect its standard error."""
        limit = "" if self.descriptors is None else f"ulimit -n {self.descriptors} && "
        stderr = f" 2{self.stderr}" if isinstance(self.stderr, str) else ""
        return ["sh", "-c", f'{limit}exec "$@"{stderr}', "sh"] if limit or stderr else []

    def _arguments(self) -> list[str]:
        if self.config is not None:
            listen = f"{self.address}:{self.port}"
            return ["--config", str(self.config), "--upstream", self.upstream, "--listen", listen]
        plain = not (self.upstream_settings or self.listen_settings or self.settings)
        if plain and self.advertise == self.address:
            listen = f"{self.address}:{self.port}"
            return ["--upstream", self.upstream, "--listen", listen, "--nodes", f"0-{NODES - 1}"]
        self._write_settings()
        return ["--config", str(self.file)]

    def _write_settings(self) -> None:
        listener = {
            "address": self.address,
            "port": self.port,
            "nodes": f"0-{NODES - 1}",
            "advertised_host": self.advertise,
            **self.listen_settings,
        }
        upstream = {"bootstrap_servers": self.upstream.split(","), **self.upstream_settings}
        sections = {"upstream": upstream, "listen": listener, **self.settings}
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(sections))  # JSON is YAML
        fresh.replace(self.file)
