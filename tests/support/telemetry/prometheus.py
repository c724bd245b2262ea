"""A real Prometheus and its promtool (Debian package `prometheus`); tests that need them are skipped without them."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from bench.harness.ports import free_ports
from bench.harness.processes import end
from proxy.telemetry.metrics.exposition import OPENMETRICS, TEXT, wants_openmetrics

START_TIMEOUT_SECONDS: Final = 120.0
FOUND_TIMEOUT_SECONDS: Final = 120.0


def program(name: str) -> str:
    """Return the program's path, or skip the test."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here (Debian package prometheus)")
    return found


def check_metrics(page: bytes) -> subprocess.CompletedProcess[str]:
    """Run `promtool check metrics` on a page in the text format; the exit code is 0 if it finds no fault."""
    return subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=page.decode(),
        capture_output=True,
        text=True,
        check=False,
    )


class Prometheus:
    """A running Prometheus, and what it has scraped."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1"

    def value(self, query: str) -> dict[str, float]:
        """A query's result: its labels (without those that Prometheus adds) as text -> value."""
        found = self._ask("query", query=query)["result"]
        return {_labels(each["metric"]): float(each["value"][1]) for each in found}

    def exemplars(self, query: str) -> list[dict[str, object]]:
        """The exemplars of these series: labels, value, timestamp each."""
        now = time.time()
        found = self._ask("query_exemplars", query=query, start=f"{now - 3600}", end=f"{now + 60}")
        return [exemplar for each in found for exemplar in each["exemplars"]]

    def targets(self) -> list[dict[str, str]]:
        """Return the health and the last error of each target."""
        return self._ask("targets")["activeTargets"]

    def await_true(self, what: Callable[[], bool]) -> None:
        """Wait until the condition holds for what it has scraped."""
        give_up = time.monotonic() + FOUND_TIMEOUT_SECONDS
        while not what():
            assert time.monotonic() < give_up, self.targets()
            time.sleep(0.1)

    def is_up(self) -> bool:
        """Return whether it answers."""
        try:
            self._ask("query", query="1")
        except OSError:
            return False
        return True

    def _ask(self, path: str, **parameters: str):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._base}/{path}?{query}", timeout=60) as reply:  # noqa: S310 - our own
            return json.load(reply)["data"]


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes HOST:PORT twice a second and keeps exemplars."""
    command = program("prometheus")
    config = folder / "prometheus.yml"
    scrape = {"job_name": "sluice", "static_configs": [{"targets": [target]}]}
    every = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
    config.write_text(json.dumps({"global": every, "scrape_configs": [scrape]}))  # JSON is YAML
    port = free_ports()
    log_path = folder / "prometheus.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [
                command,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--enable-feature=exemplar-storage",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        prometheus = Prometheus(port)
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while not prometheus.is_up():
            assert process.poll() is None, log_path.read_text()
            assert time.monotonic() < give_up, log_path.read_text()
            time.sleep(0.1)
        yield prometheus
    finally:
        end(process, 20)


@contextmanager
def serving(page: Callable[[bool], bytes], *, openmetrics: bool = True) -> Iterator[str]:
    """`page(openmetrics)` at /metrics, in the format that is asked for if it is known here; HOST:PORT."""
    knows = openmetrics

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            openmetrics = knows and wants_openmetrics(self.headers.get("Accept", ""))
            body = page(openmetrics)
            self.send_response(200)
            self.send_header("Content-Type", OPENMETRICS if openmetrics else TEXT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _labels(metric: dict[str, str]) -> str:
    added = {"__name__", "instance", "job"}
    return ",".join(f"{key}={value}" for key, value in sorted(metric.items()) if key not in added)
