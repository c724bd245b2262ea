"""The policy that needs every Produce whole."""

from bench.memory.connection import Connection
from bench.memory.frames import KIB, error_of, produce_frame
from tests.bench.memory.conftest import Behind
from tests.support.messages import frames as f


def test_a_produce_is_forwarded_when_it_is_complete(behind: Behind) -> None:
    """Not a byte of it before; Sluice has found the policy by its entry point."""
    sluice, stub = behind
    client = Connection(sluice.port)
    try:
        frame = produce_frame("t", 200 * KIB)
        client.ask(frame, 0.0)
        while client.unsent_bytes > 1:
            assert client.write(client.unsent_bytes - 1) is None
        other = Connection(sluice.port)
        other.demand(f.heartbeat(1))  # the bytes before this one have been read
        other.close()
        assert not stub.seen[f.PRODUCE, 3]
        assert error_of(client.demand(frame[-1:])) == 0
        assert stub.seen[f.PRODUCE, 3] == 1
    finally:
        client.close()
