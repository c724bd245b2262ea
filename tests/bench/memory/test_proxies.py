"""The measured proxies."""

import sys
from pathlib import Path

import pytest

from bench.memory.connection import Connection
from bench.memory.proxies import SluiceSetup, Watch, said_by
from bench.running import Running
from bench.variants import Place, Variant

UPSTREAM = 9  # no process listens there
LISTENER = """\
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
listening = socket.create_server(("127.0.0.1", {port}))
print({words!r}, file=sys.stderr, flush=True)
signal.pause()
"""


def listener(name: str, code: int = 0, words: str = "") -> Variant:
    """Return a program that listens, and ends in this way on SIGTERM."""

    def command(place: Place) -> list[str]:
        text = LISTENER.format(code=code, port=place.listen, words=words)
        return [sys.executable, "-c", text]

    return Variant(name, "", command)


def test_a_sluice_runs_in_the_settings_of_its_case(tmp_path: Path) -> None:
    """It finds the policy as an installed plug-in, accepts, and ends with exit code 0."""
    setup = SluiceSetup(limits={"socket_request_max_bytes": 1 << 20}, whole=True)
    with Running(setup.variant(), UPSTREAM, tmp_path) as proxy:
        assert proxy.pid is not None
        assert not proxy.ended
        client = Connection(proxy.port)
        client.close()
        watch = Watch(proxy)
        held = watch.resident()
        assert held is not None
        assert 1 << 20 < held.base_bytes <= held.peak_bytes
        assert "valid" in said_by(setup.sluice(proxy.place, "check"))
    assert proxy.pid is None
    assert not proxy.problems


@pytest.mark.parametrize(
    ("name", "code", "words", "problems"),
    [
        ("sluice, whole", 0, "well", 0),
        ("sluice, whole", 3, "well", 1),
        ("sluice, whole", 0, "Traceback (most recent call last)", 1),
        ("haproxy", 3, "Traceback (most recent call last)", 0),
    ],
)
def test_a_sluice_must_end_well(
    tmp_path: Path, name: str, code: int, words: str, problems: int
) -> None:
    """Exit code 0 and no traceback; a peer may end in any way."""
    with Running(listener(name, code, words), UPSTREAM, tmp_path) as proxy:
        pass
    assert len(proxy.problems) == problems
