"""A LogObserver, and the lines that it has written."""

import json

import pytest
import structlog

from policies.api import Peer
from proxy.core.purgatory.timers import Timers
from proxy.telemetry import log
from proxy.telemetry.log import LogObserver
from tests.support.shell.sockets import HandClock

PEER = Peer(7, "10.0.0.9", 40000, node_id=2, client_id="billing-1")


class Lines:
    """A LogObserver, and the lines that it has written so far."""

    def __init__(self, capsys, form="json", level="debug"):
        self.form = form
        self.clock = HandClock()
        log.configure(level, form, self.clock)
        self.timers = Timers(self.clock())
        self.observer = LogObserver(self.clock, self.timers.arm)
        self._capsys = capsys

    def advance(self, elapsed_ms: int) -> None:
        self.clock.now_ms += elapsed_ms
        self.timers.advance(self.clock.now_ms)

    def take(self) -> list[dict]:
        out, err = self._capsys.readouterr()
        assert out == "", "stdout is for results"
        return [json.loads(line) for line in err.splitlines()]

    def text(self) -> str:
        return self._capsys.readouterr().err


@pytest.fixture
def lines(capsys):
    yield lambda **options: Lines(capsys, **options)
    structlog.reset_defaults()
    log.set_level("info")
