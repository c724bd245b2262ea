"""Fixtures of the tests of the command line."""

import sys
import types
from collections.abc import Callable

import pytest

from proxy.config import Config
from proxy.config.volume import ConfigVolume
from proxy.preflight import broker_probe
from proxy.preflight.broker_probe import BrokerReport
from proxy.testing import sluice_with  # noqa: F401 - a fixture


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """Replace `proxy.app` by an object that remembers what it was asked to run."""
    ran: list[Config] = []

    def run(config: Config, load: Callable[[], Config], _volume: ConfigVolume) -> int:
        ran.append(config)
        assert load() == config  # the configuration that a reload would read
        return 7

    def probe_brokers(config: Config) -> list[BrokerReport]:
        servers = config.upstream.bootstrap_servers
        brokers = {1: ("kafka-1", 9092), 40: ("kafka-40", 9092)}
        return [
            BrokerReport(each, "refused")
            if each.startswith("dead")
            else BrokerReport(each, brokers=brokers)
            for each in servers
        ]

    fake = types.SimpleNamespace(ran=ran, run=run)
    monkeypatch.setattr(broker_probe, "probe_brokers", probe_brokers)
    monkeypatch.setattr("proxy.app", fake, raising=False)
    monkeypatch.setitem(sys.modules, "proxy.app", fake)
    return fake
