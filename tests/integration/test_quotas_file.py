"""A quota file beside the configuration in a Kubernetes volume, as the charts mount it."""

import json
import signal
import subprocess
from pathlib import Path

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.processes.sluice_process import COMMAND, SluiceProcess

SOON_S = 60.0
QUOTAS = "version: 1\nquotas: [{{user: alice, request_rate: {}}}, {{user: bob, request_rate: 3}}]\n"


def swap(folder: Path, version: str, rate: object) -> None:
    """Replace the volume's contents as the kubelet does: a new folder, and a link that is renamed over the old one."""
    made = folder / version
    made.mkdir(parents=True)
    (made / "sluice.yaml").write_text(
        "policies:\n- use: quota\n  config:\n"
        f"    quotas_file: {folder / 'quotas.yaml'}\n"
        "    quotas: [{user: bob, request_rate: 9}]\n"
    )
    (made / "quotas.yaml").write_text(QUOTAS.format(rate))
    fresh = folder / "..data_tmp"
    fresh.symlink_to(version)
    fresh.replace(folder / "..data")


def listed(sluice: SluiceProcess) -> dict[str, tuple[float, str]]:
    """Return the rate of each user and its origin, as `sluice quotas list` prints them."""
    said = subprocess.run(
        [COMMAND, "quotas", "list", "--json", "--bootstrap", sluice.bootstrap],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=True,
    )
    rows = json.loads(said.stdout)
    return {each["user"]: (each["per_second"], each["origin"]) for each in rows}


def test_a_quota_file_is_followed_with_its_volume(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """Its limits hold below the configuration's. A swap of the volume is applied; a bad file changes nothing."""
    folder = tmp_path / "volume"
    swap(folder, "..1", 40)
    for name in ("sluice.yaml", "quotas.yaml"):
        (folder / name).symlink_to(f"..data/{name}")
    with SluiceProcess(kafka_one.bootstrap, tmp_path, config=folder / "sluice.yaml") as sluice:
        assert listed(sluice) == {"alice": (40.0, "quotas_file"), "bob": (9.0, "file")}
        swap(folder, "..2", 55)
        await_that(lambda: sluice.said().count("config_reloaded") == 1, "a reload")
        assert listed(sluice)["alice"] == (55.0, "quotas_file")
        swap(folder, "..3", "many")
        await_that(lambda: "config_reload_failed" in sluice.said(), "a refusal")
        assert (
            "quotas.yaml:2): found 'many', expected a number above 0, per second" in sluice.said()
        )
        assert listed(sluice)["alice"] == (55.0, "quotas_file")
        assert sluice.process is not None
        sluice.process.send_signal(signal.SIGHUP)
        await_that(lambda: sluice.said().count("config_reload_failed") == 2, "a refusal")
        swap(folder, "..4", 60)
        await_that(lambda: sluice.said().count("config_reloaded") == 2, "a reload")
        assert listed(sluice)["alice"] == (60.0, "quotas_file")
