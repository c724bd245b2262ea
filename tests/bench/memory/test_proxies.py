"""The proxies that are measured."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from bench.harness import BenchError
from bench.memory.connection import Connection
from bench.memory.proxies import SluiceSetup, Watch, no_proxy, said_by
from bench.running import Running
from bench.variants import Place, Variant

if TYPE_CHECKING:
    from pathlib import Path

UPSTREAM = 9  # nobody listens there
LISTENER = """\
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
listening = socket.create_server(("127.0.0.1", {port}))
print({words!r}, file=sys.stderr, flush=True)
signal.pause()
"""


def listener(name: str, code: int = 0, words: str = "") -> Variant:
    """A program that listens, and ends in this way when it is told to."""

    def command(place: Place) -> list[str]:
        text = LISTENER.format(code=code, port=place.listen, words=words)
        return [sys.executable, "-c", text]

    return Variant(name, "", command)


def test_a_sluice_runs_in_the_settings_of_its_case(tmp_path: Path) -> None:
    """With the policy found as a stranger's is; it accepts, and ends well."""
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


def test_only_whole_puts_a_policy_in_the_chain(tmp_path: Path) -> None:
    """And its package on the path."""
    place = Place(1, 2, tmp_path)
    plain, whole = SluiceSetup().command(place), SluiceSetup(whole=True).command(place)
    assert "policies" in json.loads((tmp_path / "sluice.yaml").read_text())
    assert plain[:1] == whole[:1] == ["env"]
    assert str(tmp_path) in whole[1]
    assert str(tmp_path) not in plain[1]


def test_nothing_between_is_the_broker_itself(tmp_path: Path) -> None:
    """No process, the broker's own port."""
    with Running(no_proxy(), UPSTREAM, tmp_path) as proxy:
        assert proxy.port == UPSTREAM
        assert proxy.pid is None
        assert not proxy.ended
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
    """Exit code 0 and no traceback; a peer may end as it likes."""
    with Running(listener(name, code, words), UPSTREAM, tmp_path) as proxy:
        pass
    assert len(proxy.problems) == problems


def test_a_proxy_that_ended_by_itself_is_reported(tmp_path: Path) -> None:
    """Of any variant; the peak of its memory is unknown then."""
    with Running(listener("haproxy"), UPSTREAM, tmp_path) as proxy:
        watch = Watch(proxy)
        assert proxy._program is not None
        proxy._program.process.kill()
        proxy._program.process.wait()
        assert proxy.ended
        held = watch.resident()
        assert held is not None
        assert held.peak_bytes == float("inf")
    assert "ended by itself with -9" in proxy.problems[0]


def test_what_a_command_says_is_given_back_or_why_it_failed() -> None:
    """With its own words."""
    assert said_by([sys.executable, "-c", "print('yes')"]) == "yes\n"
    with pytest.raises(BenchError, match="never"):
        said_by([sys.executable, "-c", "raise SystemExit('never')"])
