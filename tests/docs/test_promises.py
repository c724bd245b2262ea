"""A running Sluice keeps the promises that the documents make of their configurations."""

import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.faults.stub_broker import StubBroker
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.processes.sluice_process import SluiceProcess

ROOT = Path(__file__).parents[2]
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
LIMIT, BURST_SECONDS, REQUESTS = 50, 2, 250
SOURCES = ("README.md", "docs/quotas.md", "examples/quotas.yaml")


def noisy_policies(name: str) -> list[object]:
    """Return the policies of the first configuration in this document that has a quota of `noisy`."""
    text = (ROOT / name).read_text("utf-8")
    blocks = [text] if name.endswith(".yaml") else YAML.findall(text)
    block = next(each for each in blocks if "client_id: noisy" in each)
    policies: list[object] = msgspec.yaml.decode(block)["policies"]
    for policy in policies:
        assert isinstance(policy, dict)
        policy["config"].pop("state_file", None)  # of another test, perhaps
    return policies


@pytest.fixture(params=SOURCES)
def sluice(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SluiceProcess]:
    policies = msgspec.json.encode(noisy_policies(request.param)).decode()
    with (
        StubBroker() as stub,
        SluiceProcess(stub.server, tmp_path, variables={"SLUICE_POLICIES": policies}) as running,
    ):
        yield running


def test_the_noisy_client_gets_the_documented_rate(sluice: SluiceProcess) -> None:
    """It sends 250 requests at once: a burst passes, and the others pass at fifty a second."""
    with socket.create_connection(("127.0.0.1", sluice.port)) as client:
        began = time.monotonic()
        client.sendall(b"".join(f.heartbeat(n, client_id="noisy") for n in range(REQUESTS)))
        for _ in range(REQUESTS):
            receive(client, struct.unpack(">i", receive(client, 4))[0])
        took = time.monotonic() - began
    after_the_burst = REQUESTS - LIMIT * BURST_SECONDS - 1
    rate = after_the_burst / took
    assert rate <= LIMIT * 1.05
