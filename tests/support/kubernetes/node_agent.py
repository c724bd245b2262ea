"""The link between the API server and the tests' kubelet: pods that were scheduled run, and their status is reported.

The real kubelet watches; this one lists ten times a second. Config maps and secrets reach the volumes at once. Each pod
resolves the Services of its namespace, and reaches their ready pods by kube-proxy's rules of the time when it started.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self

from tests.support.kubernetes.kube_api import KubeApi, Object
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_container import PodContainer
from tests.support.kubernetes.pod_network import PodNetwork, Service

_TICK_SECONDS: Final = 0.1


@dataclass(slots=True)
class NodeAgent:
    """Runs the pods of `namespace` with `kubelet`; a context manager.

    `ready_counts` has the number of ready pods after each look, `ended` the pods that were deleted, by name.
    """

    api: KubeApi
    namespace: str
    kubelet: Kubelet
    pods: dict[str, Pod] = field(default_factory=dict)
    ended: dict[str, Pod] = field(default_factory=dict)
    ready_counts: list[int] = field(default_factory=list)
    _reported: dict[str, Object] = field(default_factory=dict)
    _leaving: threading.Event = field(default_factory=threading.Event)
    _fault: BaseException | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._work, name=self.namespace, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        assert self._thread is not None, "not entered"
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    def _work(self) -> None:
        try:
            while not self._leaving.wait(_TICK_SECONDS):
                self._look()
        except BaseException as fault:  # noqa: BLE001 - raised when the agent is left
            self._fault = fault

    def _look(self) -> None:
        """Bring the pods of this machine in line with the API's, and the API's status in line with the pods."""
        for kind in ("ConfigMap", "Secret"):
            for each in self.api.items(f"{self._path}/{kind.lower()}s"):
                self.kubelet.objects.apply({"kind": kind, "data": {}} | each)
        self.kubelet.update_volumes()
        listed = {each["metadata"]["name"]: each for each in self.api.items(f"{self._path}/pods")}
        for name in self.pods.keys() - listed.keys():  # one that had ended is deleted at once
            self.ended[name] = self.pods.pop(name)
        for name, wanted in listed.items():
            is_leaving = "deletionTimestamp" in wanted["metadata"]
            if name not in self.pods:
                if "nodeName" in wanted["spec"] and not is_leaving:
                    self.pods[name] = self.kubelet.run(name, wanted, self._network())
                continue
            pod = self.pods[name]
            if is_leaving and not pod.is_ending:
                pod.delete()
            self._report(name, pod)
            if is_leaving and pod.has_ended.is_set():
                self.ended[name] = self.pods.pop(name)
                self.api.ask("DELETE", f"{self._path}/pods/{name}", {"gracePeriodSeconds": 0})
        self.ready_counts.append(sum(each.is_ready for each in self.pods.values()))

    def _network(self) -> PodNetwork:
        """Return a new pod's network, from which the Services are reached."""
        network = self.kubelet.network.add()
        for each in self.api.items(f"{self._path}/services"):
            address = each["spec"]["clusterIP"]
            if address != "None":
                name = f"{each['metadata']['name']}.{self.namespace}.svc"
                self.kubelet.names[name] = address
                ports = {port["port"]: port["targetPort"] for port in each["spec"]["ports"]}
                ready = [pod.facts.address for pod in self.pods.values() if pod.is_ready]
                Service(network, address, ports).route_to(ready)
        return network

    def _report(self, name: str, pod: Pod) -> None:
        """Write the pod's status if it has changed."""
        status = _status(pod)
        if self._reported.get(name) == status:
            return
        self._reported[name] = status
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        stamped = status | {
            "startTime": now,
            "conditions": [each | {"lastTransitionTime": now} for each in status["conditions"]],
        }
        media = "application/strategic-merge-patch+json"
        self.api.ask("PATCH", f"{self._path}/pods/{name}/status", {"status": stamped}, media)


def _status(pod: Pod) -> Object:
    """Return the pod's status without times."""
    names = {each["name"] for each in pod.spec.get("initContainers", ())}
    own = [each for each in pod.containers if each.name not in names]
    return {
        "phase": _phase(pod.spec, own),
        "podIP": pod.facts.address,
        "podIPs": [{"ip": pod.facts.address}],
        "containerStatuses": [_container_status(each) for each in own],
        "initContainerStatuses": [_container_status(e) for e in pod.containers if e.name in names],
        "conditions": [
            {"type": each, "status": str(pod.is_ready)} for each in ("Ready", "ContainersReady")
        ],
    }


def _phase(spec: Mapping[str, Any], containers: list[PodContainer]) -> str:
    if spec.get("restartPolicy") != "Never" or any(not each.codes for each in containers):
        return "Running"
    return "Failed" if any(each.codes[-1] for each in containers) else "Succeeded"


def _container_status(container: PodContainer) -> Object:
    return {
        "name": container.name,
        "image": container.spec["image"],
        "imageID": "",
        "ready": container.is_running and container.is_ready,
        "started": container.is_running and container.is_started,
        "restartCount": len(container.codes) if container.is_kept else 0,
        "state": {"running": {}} if container.is_running else {"waiting": {}},
    }
