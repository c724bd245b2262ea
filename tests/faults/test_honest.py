"""The figures of `tests/support/faults/honest.py`, beside a process whose work is known."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.support.faults import honest
from tests.support.faults.honest import Honest
from tests.support.house.house import ROOT

WORK_S = 0.2
"""Of CPU, that the process spends before or after its reply."""
SERVER = """
import socket, sys, time
from tests.support.messages import frames as f
from tests.support.faults.stub_broker import body_of
from tests.support.faults.honest import receive_frames

def work(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
client, _ = server.accept()
number = 0
while request := receive_frames(client, 1):
    number += 1
    work(float(sys.argv[1]))
    client.sendall(f.reply(number, body_of(request[0])))
    work(float(sys.argv[2]))
"""


@pytest.fixture
def serve() -> Iterator[Callable[[float, float], Honest]]:
    """Return what connects a client to a process that works so many CPU seconds before and after each reply."""
    started: list[subprocess.Popen[str]] = []

    def start(before_s: float, after_s: float) -> Honest:
        command = [sys.executable, "-c", SERVER, str(before_s), str(after_s)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        started.append(process)
        assert process.stdout is not None
        return Honest(int(process.stdout.readline()), pid=process.pid)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_work_before_the_reply_is_counted(serve) -> None:
    """A busy machine can hide some of it, never add to it; so it is seen sooner or later."""
    with serve(WORK_S, 0) as client:
        while client.worst_cpu_s < WORK_S / 2:
            client.ask()
        assert client.worst_cpu_s < 2 * WORK_S


def test_work_after_the_reply_is_not_counted(serve, monkeypatch) -> None:
    """However late the client reads the reply."""
    with serve(0, WORK_S) as client:

        def read_late(*arguments: object) -> bytes:
            busy_s = client.cpu_s()
            while client.cpu_s() - busy_s < WORK_S / 2:
                pass
            return receive(*arguments)

        receive = honest.receive
        monkeypatch.setattr(honest, "receive", read_late)
        client.ask()
        assert client.worst_cpu_s < WORK_S / 4
