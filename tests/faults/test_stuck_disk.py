"""A disk that stops answering under the usage log: reloads and requests are served, and every lost row is counted."""

import fcntl
import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_metrics

from bench.harness.ports import free_ports
from proxy.telemetry.usage_log.writer_thread import MAX_QUEUED_ROWS
from tests.support.faults.honest import Honest, receive_frames
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.telemetry.usage_log import shown

_SHIM: Final = """
import fcntl, os

_fsync = os.fsync

def fsync(descriptor):
    with open({path!r}) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    _fsync(descriptor)

os.fsync = fsync
"""
PIPELINED = 2_000
FAMILIES = ("entity", "instance", "capture")


class StuckDisk:
    """The disk of a process that is started with `variables`; it works until it is `stuck`."""

    def __init__(self, directory: Path) -> None:
        folder = directory / "stuck_disk"
        folder.mkdir()
        self._lock = folder / "lock"
        self._lock.touch()
        (folder / "sitecustomize.py").write_text(_SHIM.format(path=str(self._lock)))
        before = os.environ.get("PYTHONPATH", "")
        self.variables = {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), before)))}

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """No fsync returns until this is left."""
        with self._lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def send_many(port: int, count: int) -> None:
    """So many requests, each answered: a row each, where they are captured."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        for _ in range(count // PIPELINED):
            client.sendall(b"".join(f.heartbeat(n) for n in range(PIPELINED)))
            assert len(receive_frames(client, PIPELINED)) == PIPELINED


def dropped(sluice: SluiceProcess) -> float:
    """The rows that the metrics count as dropped so far."""
    with urllib.request.urlopen(f"http://{sluice.settings['admin']['listen']}/metrics") as page:
        families = read_metrics(page.read().decode())
    (family,) = (each for each in families if each.name == "sluice_usage_log_rows_dropped")
    return family.samples[0].value


def await_rows(directory: Path) -> None:
    """Until a segment is open: the next SIGHUP closes it, and that needs the disk."""
    await_that(lambda: any(directory.glob("usage/entity/.*.open")), "a segment")


@pytest.fixture
def disk(tmp_path: Path) -> StuckDisk:
    return StuckDisk(tmp_path)


@pytest.fixture
def sluice(start, far, disk, tmp_path):
    """With a usage log that has a row for each request."""
    usage = {"directory": str(tmp_path / "usage"), "families": FAMILIES, "rotate_ms": 1000}
    settings = {"usage_log": usage, "admin": {"listen": f"127.0.0.1:{free_ports()}"}}
    return start(far, variables=disk.variables, settings=settings)


def test_reloads_and_requests_pass_while_the_usage_log_waits_for_the_disk(sluice, disk, tmp_path):
    """The rows that are missing, by their `seq`, are those that the last row of the instance says were dropped."""
    with Honest(sluice.port) as honest:
        honest.ask()
        await_rows(tmp_path)
        with disk.stuck():
            for number in (1, 2):
                sluice.reload(drain={"timeout_ms": 10_000 + number})
                await_that(lambda: sluice.said().count("config_reloaded") == number, "the reload")  # noqa: B023
            while not dropped(sluice):  # by a second that ends after the queue was full
                send_many(sluice.port, MAX_QUEUED_ROWS // 5)
                honest.ask()

        def is_written_after_the_gap() -> bool:
            honest.ask()
            rows = shown(tmp_path / "usage", "capture")
            return bool(rows) and rows[-1]["seq"] > len(rows)

        await_that(is_written_after_the_gap, "a row after those that were dropped")
        sluice.stop()
    rows = {family: shown(tmp_path / "usage", family) for family in FAMILIES}
    missing = {family: found[-1]["seq"] - len(found) for family, found in rows.items()}
    assert sum(missing.values()) == rows["instance"][-1]["rows_dropped_total"] > 0


def test_a_drain_does_not_wait_for_the_disk_and_says_what_was_not_written(sluice, disk, tmp_path):
    """After two seconds. The next start recovers what the disk has."""
    with disk.stuck():
        with Honest(sluice.port) as honest:
            honest.ask()
            await_rows(tmp_path)
            sluice.reload(drain={"timeout_ms": 5_000})
            await_that(lambda: "config_reloaded" in sluice.said(), "the reload")
            honest.ask()
        sluice.stop()
    assert "usage_log_incomplete" in sluice.said()
    sluice.start()
    sluice.stop()
    assert "usage_log_recovered" in sluice.said()
