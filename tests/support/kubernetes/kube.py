"""A Kubernetes control plane on loopback: etcd, kube-apiserver, the controllers and the scheduler, each a real process.

`make apiserver` builds the programs once (`kubernetes/build.sh`). The nodes have no kubelet: pods are admitted, made by
their controllers and scheduled, and stay Pending unless a `NodeAgent` runs them.
"""

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bench.harness.ports import LOOPBACK, free_ports
from bench.harness.processes import end, wait_accepting
from tests.support.house.house import ROOT
from tests.support.kafka.load import await_that
from tests.support.kubernetes.kube_api import KubeApi, objects
from tests.support.shell.certificates import Authority

PROGRAMS: Final = (
    *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "helm"),
)
VARIABLE: Final = "SLUICE_KUBERNETES"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
_CACHE: Final = ROOT / ".cache" / "kubernetes"
_CONTROLLERS: Final = (
    *("deployment", "replicaset", "job", "disruption", "endpointslice", "namespace"),
    *("garbage-collector", "horizontal-pod-autoscaler", "serviceaccount"),
    *("root-ca-certificate-publisher", "statefulset"),
)


class KubernetesUnavailableError(Exception):
    """The programs are not here; says what to do."""


def kubernetes_programs() -> Path:
    """Return the folder of the programs: `SLUICE_KUBERNETES`, or where `make apiserver` puts them."""
    folder = Path(os.environ.get(VARIABLE, _CACHE))
    missing = [each for each in PROGRAMS if not os.access(folder / each, os.X_OK)]
    if missing:
        raise KubernetesUnavailableError(
            f"no {', '.join(missing)} in {VARIABLE} or .cache/kubernetes (`make apiserver` builds them)"
        )
    return folder


@dataclass(slots=True)
class ControlPlane:
    """The processes, and how to reach them; their logs and data are below `directory`."""

    programs: Path
    directory: Path
    api: KubeApi = field(init=False)
    kubeconfig: Path = field(init=False)
    _processes: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until pods can be scheduled."""
        self.directory.mkdir(parents=True, exist_ok=True)
        authority = Authority(self.directory / "certificates")
        token = secrets.token_hex(16)
        etcd = self._start_etcd()
        port = self._start_api_server(etcd, authority, token)
        self.api = KubeApi(f"https://{LOOPBACK}:{port}", token, authority.ca_file)
        self.kubeconfig = self._write_kubeconfig(authority.ca_file)
        await_that(lambda: self.api.ask("GET", "/readyz").status == 200, "the API server")
        kubeconfig = f"--kubeconfig={self.kubeconfig}"
        self._start(
            "kube-controller-manager",
            *(kubeconfig, "--leader-elect=false", "--secure-port=0"),
            f"--controllers={','.join(f'{each}-controller' for each in _CONTROLLERS)}",
            f"--service-account-private-key-file={self.directory / 'accounts.pem'}",
            f"--root-ca-file={authority.ca_file}",
        )
        self._start(
            "kube-scheduler",
            *(kubeconfig, "--leader-elect=false", "--secure-port=0"),
        )
        for index, zone in enumerate(ZONES):
            self._make_node(f"node-{index}", zone)

    def stop(self) -> None:
        """End the processes, the youngest first."""
        if hasattr(self, "api"):
            self.api.client.close()
        for process in reversed(self._processes):
            end(process, 10)
        self._processes.clear()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def define(self, *files: str) -> None:
        """Create the kinds that the CRD files of `crds/` define, and wait until objects can be created."""
        made = [
            each for file in files for each in objects((self.programs / "crds" / file).read_text())
        ]
        for each in made:
            self.api.create(each)
        for path in [self.api.path(each, "") for each in made]:
            await_that(lambda path=path: _is_established(self.api.get(path)), path)

    def _start_etcd(self) -> str:
        port = free_ports(count=2)
        client, peer = (f"http://{LOOPBACK}:{port + n}" for n in (0, 1))
        self._start(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}"),
            *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"),
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # the data does not outlive the test
            port=port,
        )
        return client

    def _start_api_server(self, etcd: str, authority: Authority, token: str) -> int:
        port = free_ports()
        pair = authority.issue(LOOPBACK, "localhost", file_name="api-server")
        accounts = self.directory / "accounts.pem"
        accounts.write_bytes(
            rsa.generate_private_key(65537, 2048).private_bytes(
                Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
            )
        )
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f"{token},tests,tests,system:masters\n")
        self._start(
            "kube-apiserver",
            *(f"--etcd-servers={etcd}", f"--bind-address={LOOPBACK}", f"--secure-port={port}"),
            *(f"--tls-cert-file={pair.cert_file}", f"--tls-private-key-file={pair.key_file}"),
            *(f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
            "--service-account-issuer=https://kubernetes.default.svc",
            *(f"--service-account-{each}-file={accounts}" for each in ("key", "signing-key")),
            "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
            "--disable-admission-plugins=TaintNodesByCondition",  # no kubelet makes the nodes ready
            *(
                "--endpoint-reconciler-type=none",
                "--advertise-address=192.0.2.1",
            ),  # loopback is refused
            port=port,
        )
        return port

    def _start(self, name: str, *arguments: str, port: int | None = None) -> None:
        """Start the program and, if it has a port, wait until that accepts."""
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [self.programs / name, *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        if port is not None:
            wait_accepting(process, LOOPBACK, port, lambda: self._log(name), 60)

    def _log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]

    def _write_kubeconfig(self, ca_file: Path) -> Path:
        path = self.directory / "kubeconfig"
        cluster = {"server": self.api.url, "certificate-authority": str(ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": self.api.token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }
        path.write_text(json.dumps(content))  # JSON is YAML
        path.chmod(0o600)
        return path

    def _make_node(self, name: str, zone: str) -> None:
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels | {"kubernetes.io/os": "linux"}},
        }
        self.api.create(node)
        room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        answer = self.api.ask(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            {"status": status},
            "application/merge-patch+json",
        )
        assert answer.status == 200, answer.message


def _is_established(definition: dict) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
