"""The gateway's chart before a real Kafka: Sluice with the rendered configuration, and the release's own test."""

from pathlib import Path
from urllib.request import urlopen

from bench.harness.ports import accepts, free_ports
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kubernetes.gateway import FILE, Release, values
from tests.support.processes.command_line import invoke
from tests.support.processes.sluice_process import SluiceProcess

HOST = "127.0.0.1"
ALL = "0.0.0.0"  # noqa: S104 - as in a pod


def test_a_release_serves_and_its_test_passes(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    """The probes answer, every port of the Service accepts, the pod of the test succeeds, and SIGTERM drains."""
    file = tmp_path / "config" / "sluice.yaml"
    file.parent.mkdir()
    sluice = SluiceProcess(
        kafka_three.bootstrap, tmp_path, config=file, address=ALL, advertise=HOST
    )
    admin = free_ports(ALL)
    config = {
        "upstream": {"bootstrap_servers": kafka_three.bootstrap.split(",")},
        "listen": {"port": sluice.port, "nodes": "0-7", "advertised_host": HOST},
        "admin": {"listen": f"{ALL}:{admin}"},
    }
    release = Release(values(config))
    file.write_text(release.one("ConfigMap", "-sluice")["data"][FILE], "utf-8")

    with sluice:
        # It opens after the ports for clients.
        await_that(lambda: accepts(HOST, admin), "the admin server", said=sluice.said)
        probes = [
            release.container[f"{each}Probe"] for each in ("startup", "readiness", "liveness")
        ]
        for probe in probes:
            with urlopen(f"http://{HOST}:{admin}{probe['httpGet']['path']}", timeout=60) as answer:
                assert answer.status == 200
        ports = [each["port"] for each in release.one("Service")["spec"]["ports"]]
        assert len(ports) == 9
        assert all(accepts(HOST, port) for port in ports)
        (container,) = release.one("Pod")["spec"]["containers"]
        tested = invoke(*container["args"])
        assert tested.exit_code == 0, tested.output
        assert tested.stdout.count(": reachable\n") == 3
