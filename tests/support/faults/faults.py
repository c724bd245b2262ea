"""Fixtures: a stub broker and a `sluice run` before it, which must end with exit code 0 and without a traceback."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.harness.processes import module_process
from tests.support.faults.stub_broker import StubBroker
from tests.support.processes.sluice_process import SluiceProcess

Start = Callable[..., SluiceProcess]


@pytest.fixture
def broker() -> Iterator[StubBroker]:
    """A stub broker with its usual answers."""
    with StubBroker() as stub:
        yield stub


@pytest.fixture
def far() -> Iterator[str]:
    """HOST:PORT of a usual stub broker in a process of its own."""
    with module_process("tests.support.faults.stub_broker") as server:
        yield server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a Sluice before `upstream` (HOST:PORT); further arguments are SluiceProcess's."""
    started: list[SluiceProcess] = []

    def begin(upstream: str, **words: object) -> SluiceProcess:
        sluice = SluiceProcess(upstream, tmp_path, **words)
        started.append(sluice)
        sluice.start()
        return sluice

    yield begin
    for sluice in started:
        sluice.stop()
