"""Policies in a volume of Kubernetes: a swap of its link reloads them, and no connection is dropped."""

from pathlib import Path

from tests.support.faults.honest import Honest
from tests.support.kafka.load import await_that

POLICY = '''
"""A policy."""
import msgspec
from policies.api import FORWARD, Policy


class GuardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No setting."""


class Guard(Policy):
    """Says its version."""

    Config = GuardConfig

    def __init__(self, config, host):
        self._log = host.log

    def on_connect(self, peer, now_ms):
        self._log.info("this is version {version}")
        return FORWARD

    def on_request(self, request, peer, now_ms):
        return FORWARD
'''


def swap(volume: Path, version: int) -> None:
    """Replace the contents as the kubelet does: a new folder, and a link that is renamed over the old one."""
    folder = volume / f"..2026_{version}"
    folder.mkdir(parents=True)
    (folder / "guard.py").write_text(POLICY.replace("{version}", str(version)))
    fresh = volume / "..data_tmp"
    fresh.symlink_to(folder.name)
    fresh.replace(volume / "..data")


def test_a_swap_of_the_volume_reloads_its_policies(start, broker, tmp_path: Path) -> None:
    """The path of the file is a link through another one, and stays the same."""
    volume = tmp_path / "policies"
    swap(volume, 1)
    (volume / "guard.py").symlink_to("..data/guard.py")
    settings = {"policies_path": [str(volume)], "policies": [{"use": "guard"}]}
    sluice = start(broker.server, settings=settings)
    with Honest(sluice.port) as honest:
        honest.ask()
        assert "this is version 1" in sluice.said()
        await_that(lambda: "config_reloaded" in sluice.said(), "the reload of the first look")
        swap(volume, 2)
        await_that(lambda: "changed=['policies']" in sluice.said(), "the reload after the swap")
        honest.ask()
        with Honest(sluice.port) as later:
            later.ask()
        await_that(lambda: "this is version 2" in sluice.said(), "the new policy")
