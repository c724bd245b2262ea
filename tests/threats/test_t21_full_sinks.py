"""T21: a log that is full, closed or never read.

Sinks never block: a queue with a bound, a thread that writes, and a count of what is dropped. The log loses its own
lines and affects nothing else. `tests/faults/test_stuck_disk.py` has the usage log.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.harness.ports import free_ports
from tests.support.faults.honest import Crowd
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.measured import scaled, tell
from tests.support.processes.sluice_process import COMMAND

JUNK = struct.pack(">i", -1) + bytes(8)
JUNK_CONNECTIONS = 475
ATTACK_CONNECTIONS = scaled(475, 20_000)
PIPE_BYTES = 4096
PATIENCE_SECONDS = 120


def junk(port: int, count: int = JUNK_CONNECTIONS) -> None:
    """Open many connections that each end with a line in the log."""
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client:
            with suppress(ConnectionError):
                client.sendall(JUNK)
            assert receive_until_closed(client) == b""


def is_served(port: int) -> bool:
    """Return whether a client gets an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(f.heartbeat(5))
        return bool(client.recv(100))


@pytest.fixture
def full_pipe():
    """Return a full pipe: the end that is not read, and the end that takes no more bytes."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"x" * 1024):
            pass
    os.set_blocking(writer, True)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_an_unread_log_blocks_neither_clients_nor_the_shutdown(start, broker, full_pipe):
    """With a full pipe as standard error Sluice starts, serves, is attacked, serves, and drains on SIGTERM."""
    _, writer = full_pipe
    sluice = start(broker.server, stderr=writer)
    assert is_served(sluice.port)
    with Crowd(sluice.port, 2, pid=sluice.pid) as crowd:
        junk(sluice.port, ATTACK_CONNECTIONS)
    waits_ms = sorted(wait * 1000 for wait in crowd.waits_s)
    tell("T21", f"{ATTACK_CONNECTIONS} junk connections, a log that is not read: honest p99 "
         f"{waits_ms[len(waits_ms) * 99 // 100]:.1f} ms, of CPU {crowd.worst_cpu_s * 1000:.0f} ms at most")  # fmt: skip
    assert is_served(sluice.port)
    sluice.stop()  # insists on exit code 0


def test_an_unread_log_blocks_neither_reloads_nor_a_drain_that_comes_with_one(
    start, broker, full_pipe
):
    """Each reload changes the policies, is counted, and writes a line that the pipe does not take."""
    admin = f"127.0.0.1:{free_ports()}"
    sluice = start(broker.server, stderr=full_pipe[1], settings={"admin": {"listen": admin}})
    for count in range(1, 4):
        sluice.reload(policies=[{"use": "limits", "name": f"limits{count}"}])
        await_that(lambda: reloads(admin) == count, "the reload")  # noqa: B023
    assert is_served(sluice.port)
    sluice.reload(policies=[])
    sluice.stop()


def reloads(admin: str) -> float:
    """Return how many reloads have succeeded; -1 before the admin server is there."""
    try:
        with urllib.request.urlopen(f"http://{admin}/metrics", timeout=PATIENCE_SECONDS) as page:
            families = text_string_to_metric_families(page.read().decode())
    except urllib.error.URLError:
        return -1
    (family,) = (each for each in families if each.name == "sluice_config_reloads")
    return sum(each.value for each in family.samples if each.labels["result"] == "success")


def test_a_late_reader_of_the_log_gets_every_line(start, broker):
    """While the pipe is full, the queue holds the lines."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    variables = {"SLUICE_LOG_FORMAT": "json", "SLUICE_LOG_LEVEL": "debug"}
    sluice = start(broker.server, stderr=writer, variables=variables)
    os.close(writer)
    junk(sluice.port)
    assert is_served(sluice.port)
    with os.fdopen(reader, "rb") as pipe:
        first = pipe.readline()
        sluice.terminate()
        events = [json.loads(line)["event"] for line in (first, *pipe)]
    sluice.await_exit()
    assert events[0] == "memory_budget"
    assert events[-1] == "stopped"
    assert "log_lines_lost" not in events


@pytest.mark.parametrize("stderr", [">&-", ">/dev/full"])
def test_a_log_that_cannot_be_written_ends_nothing(start, broker, stderr):
    """With a closed standard error or a full disk Sluice starts,
    serves, is attacked, serves, and exits with code 0.
    """
    sluice = start(broker.server, stderr=stderr)
    junk(sluice.port)
    assert is_served(sluice.port)
    sluice.stop()


def test_a_log_whose_reader_has_gone_ends_nothing(start, broker):
    """Sluice serves on after EPIPE."""
    reader, writer = os.pipe()
    sluice = start(broker.server, stderr=writer)
    os.close(writer)
    os.close(reader)
    junk(sluice.port)
    assert is_served(sluice.port)
    sluice.stop()


def test_sighup_after_logrotate_opens_the_files_again(start, broker, tmp_path):
    """Log, traces and usage log: later lines go to the new files."""
    traces, usage = tmp_path / "traces.jsonl", tmp_path / "usage"
    variables = {
        "SLUICE_TRACES_FILE": str(traces),
        "SLUICE_TRACES_SAMPLE_EVERY_REQUESTS": "1",
        "SLUICE_USAGE_LOG_DIRECTORY": str(usage),
    }
    sluice = start(broker.server, variables=variables)
    assert is_served(sluice.port)
    await_that(lambda: "ready" in sluice.said(), "the first lines, which a thread writes")
    before = sluice.log.rename(tmp_path / "log.1")
    traces.rename(tmp_path / "traces.jsonl.1")
    os.kill(sluice.pid, signal.SIGHUP)
    assert is_served(sluice.port)
    sluice.stop()
    assert "ready" in before.read_text()
    assert "stopped" not in before.read_text()
    assert "stopped" in sluice.said()
    assert traces.read_text().count("Heartbeat")


def run(*arguments: str, **streams) -> subprocess.Popen[bytes]:
    return subprocess.Popen([COMMAND, "run", *arguments], **streams)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--upstream", "no port"), 2, b"upstream.bootstrap_servers"),
        (("--upstream", "127.0.0.1:1", "--listen", ":{taken}"), 1, b"cannot listen on"),
    ],
    ids=["settings", "port taken"],
)
def test_the_reason_of_a_failed_start_is_written_before_the_exit(arguments, code, said):
    """The exit code is the same if the reason cannot be written."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [each.format(taken=port) for each in arguments]
        with run(*words, stderr=subprocess.PIPE) as heard:
            _, written = heard.communicate(timeout=PATIENCE_SECONDS)
        with Path("/dev/full").open("wb") as full, run(*words, stderr=full) as unheard:
            unheard.wait(PATIENCE_SECONDS)
    assert said in written
    assert (heard.returncode, unheard.returncode) == (code, code)


def test_a_start_that_fails_does_not_hang_on_a_full_pipe(full_pipe):
    """The message is lost; the exit code is not."""
    with run("--upstream", "no port", stderr=full_pipe[1]) as process:
        assert process.wait(PATIENCE_SECONDS) == 2


HANGUP_WHEN_IMPORTED = """
import os, runpy, signal, sys

class Hangup:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGHUP)

module = sys.argv.pop(1)
sys.meta_path.insert(0, Hangup())
runpy.run_module("proxy", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["click", "proxy.config.sources", "trio", "proxy.app"])
def test_sighup_during_the_start_is_obeyed_once_sluice_runs(broker, module):
    """It does not end the process; the settings are read again, because they may have been read before it."""
    listen = f"127.0.0.1:{free_ports(count=2)}"
    words = ("run", "--upstream", broker.server, "--listen", listen, "--nodes", "0")
    command = [sys.executable, "-c", HANGUP_WHEN_IMPORTED, module, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"config_reloaded" in line:
                process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
