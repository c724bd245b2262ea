"""Sluice: it starts in front of the brokers, takes quotas live, and says why it does not start."""

from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from msgspec import json

from proxy.demo import sluice as module
from proxy.demo.cluster import HOST
from proxy.demo.processes import DemoError
from proxy.demo.roles import QUOTAS
from proxy.demo.sluice import Sluice, settings

BROKERS = {1: f"{HOST}:1"}
"""Sluice connects to a broker when a client does, so that none is needed here."""


def limits_of(sluice: Sluice) -> dict[str, float]:
    """Return the quotas that Sluice serves to the owner of the dashboard's token."""
    address, _, token = sluice.dashboard.partition("/#token=")
    request = Request(f"{address}/v1/quotas", headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - our own
    with urlopen(request) as answer:  # noqa: S310 - our own
        quotas = json.decode(answer.read())["quotas"]
    return {each["client_id"]: each["per_second"] for each in quotas}


def test_a_quota_is_set_and_removed_live(tmp_path: Path) -> None:
    """It is in force until it is removed; a refused one is explained, and so is one after the end, which is clean."""
    with Sluice(BROKERS, tmp_path) as sluice:
        sluice.await_ready()
        limits = []
        for requests_per_s in (None, 100, None):
            sluice.set_quota("noisy", requests_per_s)
            limits.append(limits_of(sluice))
        with pytest.raises(DemoError, match="request_rate"):
            sluice.set_quota("noisy", -1)
        code = sluice.stop()
        with pytest.raises(DemoError, match="connection was refused"):
            sluice.set_quota("noisy", 100)

    assert limits == [{}, {"noisy": 100}, {}]
    assert code == 0
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0


def test_a_sluice_that_does_not_start_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Sluice ends instead of listening, its own message is in the error."""
    monkeypatch.setattr(module, "NODES", -5)
    monkeypatch.setattr(module, "free_ports", lambda _: 1)

    with Sluice(BROKERS, tmp_path) as sluice, pytest.raises(DemoError, match="nodes"):
        sluice.await_ready()


def test_quotas_are_those_of_a_file(tmp_path: Path) -> None:
    """With a quota file Sluice starts with its limits; without one, and with a usage log, with those of the roles."""
    file = tmp_path / "quotas.yaml"
    file.write_text("version: 1\nquotas: [{client_id: alice, request_rate: 77}]\n", "utf-8")

    with Sluice(BROKERS, tmp_path, tmp_path / "log", file) as sluice:
        sluice.await_ready()
        limits = limits_of(sluice)

    assert limits == {"alice": 77}
    of_roles = json.encode(settings({}, tmp_path, None)["policies"]).decode()
    assert all(
        f'{{"client_id":"{name}","request_rate":{n}' in of_roles for name, n in QUOTAS.items()
    )
