"""The Sluice process of the demo.

Rules:
- It is started by its command line, and changed only from outside, over its admin server.
- Quotas are set and removed while it runs, as `sluice quotas` does it. With a usage log it starts with the quotas of
  `proxy.demo.roles`, or with those of a quota file.
- Its ports are a free block: the bootstrap port, one for each node id, and the dashboard's. A port that another
  program takes in between ends the demo.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from typing import TYPE_CHECKING

from proxy.admin.client import AdminAddress, AdminClient
from proxy.admin.errors import RefusedError, UnreachableError
from proxy.demo.cluster import HOST, NODES, free_ports
from proxy.demo.processes import TIMEOUT_S, Brokers, ChildProcess, DemoError
from proxy.demo.roles import QUOTAS

if TYPE_CHECKING:
    from pathlib import Path

TRACES = "traces.jsonl"
"""In the folder of the usage log."""
FAMILIES = ["entity", "api", "instance", "topic", "capture"]


def settings(
    admin: dict[str, str], usage_log: Path | None, quotas_file: Path | None
) -> dict[str, object]:
    """Return the content of its configuration file."""
    quota: dict[str, object] = {}
    written: dict[str, object] = {
        "identity": {"user": "demo"},  # the user of all clients: the embedded cluster has no SASL
        "policies": [{"use": "quota", "config": quota}],
        "admin": admin,
    }
    if usage_log is None:
        return written
    if quotas_file is None:
        quota["quotas"] = [{"client_id": name, "request_rate": n} for name, n in QUOTAS.items()]
    else:
        quota["quotas_file"] = str(quotas_file.resolve())
    directory = usage_log.resolve()
    traces = {"export": "file", "file": str(directory / TRACES), "sample_every_requests": 100}
    log = {"directory": str(directory), "instance": "demo", "families": FAMILIES}
    return written | {"usage_log": log, "traces": traces}


class Sluice(ChildProcess):
    """A Sluice in front of `brokers`, with or without a usage log."""

    def __init__(
        self,
        brokers: Brokers,
        folder: Path,
        usage_log: Path | None = None,
        quotas_file: Path | None = None,
    ) -> None:
        port = free_ports(1 + NODES + 1)
        self.bootstrap = f"{HOST}:{port}"
        # Node n listens at the bootstrap port + 1 + n's place in the range, which starts at 0.
        self.advertised: Brokers = {node: f"{HOST}:{port + 1 + node}" for node in brokers}
        """Where clients should be told that each broker is."""
        control, token = f"{HOST}:{port + 1 + NODES}", secrets.token_urlsafe(24)
        self.dashboard = f"http://{control}/#token={token}"
        """The dashboard's address with its token; browsers do not send what follows the `#`."""
        self._admin = AdminClient(AdminAddress(address=control, token=token))
        token_file = folder / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(token, "ascii")
        admin = {"control": control, "token_file": str(token_file)}
        if usage_log is not None:
            usage_log.mkdir(parents=True, exist_ok=True)
        file = folder / "sluice.yaml"
        # JSON is YAML.
        file.write_text(json.dumps(settings(admin, usage_log, quotas_file)), "utf-8")
        options = [
            *("--config", str(file)),
            *("--upstream", ",".join(brokers.values())),
            *("--listen", self.bootstrap),
            *("--nodes", f"0-{NODES - 1}"),
        ]
        super().__init__("sluice", ["-m", "proxy", "run", *options], folder, is_silent=True)

    def await_ready(self) -> None:
        """Wait until it serves its admin page; that opens after its Kafka ports. Raises DemoError."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline_s and self.process.poll() is None:
            try:
                self._admin.get("/v1/quotas")
            except (UnreachableError, RefusedError):
                time.sleep(0.05)
            else:
                return
        raise DemoError(f"Sluice does not start\n{self.last_lines()}")

    def set_quota(self, client_id: str, requests_per_s: float | None) -> None:
        """Set a client id's quota, or remove it (None). Raises DemoError when Sluice refuses."""
        method = "DELETE" if requests_per_s is None else "PUT"
        path = f"/v1/quotas?client_id={client_id}"
        body = None if requests_per_s is None else {"request_rate": requests_per_s}
        try:
            self._admin.ask(method, path, body)
        except (UnreachableError, RefusedError) as error:
            raise DemoError(f"{method} {path}: {error}\n{self.last_lines()}") from error

    def stop(self) -> int | None:
        """Send SIGTERM and return the exit code; None when it does not end in time."""
        self.process.terminate()
        try:
            return self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
