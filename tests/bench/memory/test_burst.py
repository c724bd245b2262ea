"""Case d: its load, before a stub broker."""

import itertools
import socket
import threading

from bench.memory.burst import REQUEST
from bench.memory.frames import KIB, MIB, produce_frame
from bench.memory.load import Load, Planned
from tests.support.shell.sockets import receive

SMALL = produce_frame("t", KIB)
LARGE = [produce_frame("t", MIB), produce_frame("t", MIB, 1)]


def burst(port: int, frames: list[bytes], count: int) -> Load:
    """Clients with one request each, of these frames in turn."""
    turns = itertools.cycle([Planned(REQUEST, frame) for frame in frames])
    return Load(port, count, lambda: next(turns), once=True)


def test_a_refused_closed_or_unanswered_request_is_a_problem() -> None:
    """One by an error code, one by a close, one by silence."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far: list[socket.socket] = []

        def answer() -> None:
            good = bytes.fromhex("0000002800000001000000010001740000000100000000000000000000000000")
            good += bytes.fromhex("01ffffffffffffffff00000000")
            for _ in range(3):
                accepted, _ = listening.accept()
                receive(accepted, len(SMALL))
                accepted.sendall(good)
                far.append(accepted)
            for accepted in far[:2]:
                receive(accepted, len(SMALL))
            far[0].sendall(good.replace(b"\0\0\0\1\0\0\0\0\0\0", b"\0\0\0\1\0\0\0\0\0\7"))
            far[1].close()

        thread = threading.Thread(target=answer)
        thread.start()
        tasks = burst(listening.getsockname()[1], [SMALL], 3)
        tasks.open(SMALL)
        found = tasks.run(1.0)
        thread.join(5)
        for each in far:
            each.close()
    assert sorted(found.problems) == [
        f"closed after {len(SMALL)} bytes",
        "error 7",
        "not answered",
    ]
    assert not found.replied
