"""A Sluice that needs each Produce whole, before a stub broker, for loads that need no real one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.memory import whole
from tests.support.faults.stub_broker import StubBroker
from tests.support.processes.sluice_process import SluiceProcess

Behind = tuple[SluiceProcess, StubBroker]


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    """Sluice, running, and its stub broker."""
    with StubBroker() as stub:
        variables = {
            "PYTHONPATH": whole.install(tmp_path),
            "SLUICE_POLICIES": json.dumps([{"use": whole.NAME}]),
        }
        with SluiceProcess(stub.server, tmp_path, variables=variables) as sluice:
            yield sluice, stub
