"""A Deployment and its Service as the controllers of Kubernetes treat them, on one Kubelet.

Rules:
- A rolling update (maxSurge 1, maxUnavailable 0) starts one pod of the new template; when that has been ready for
  `minReadySeconds`, it deletes one old pod; and so on. It does not wait for the end of the old pod.
- The pods that are ready get the new connections of the Service. A pod that is deleted is no longer ready.
- Each change reaches the node's rules after PROPAGATION_S, as it takes time from the kubelet over the API server to
  kube-proxy.
"""

import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from tests.support.kafka.load import await_that
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_network import Service

PROPAGATION_S: Final = 1.0
_TICK_S: Final = 0.05


@dataclass(slots=True)
class Workload:
    """The pods of `manifest`, a Deployment; `clients` are the Service in the networks of its clients.

    A context manager: the endpoints are kept up to date inside.
    """

    kubelet: Kubelet
    manifest: Mapping[str, Any]
    clients: Sequence[Service]
    pods: list[Pod] = field(default_factory=list)
    ended: list[Pod] = field(default_factory=list)
    _serials: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        for _ in range(self.manifest["spec"]["replicas"]):
            self.pods.append(self._run())
        for pod in self.pods:
            pod.await_ready()
        self._route([pod.facts.address for pod in self.pods])
        self._thread = threading.Thread(target=self._follow, name="endpoints", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        assert self._thread is not None, "not entered"
        self._thread.join()

    def update(self, manifest: Mapping[str, Any]) -> None:
        """Replace every pod by one of the new template, and wait until the old ones have ended."""
        self.manifest = manifest
        old = list(self.pods)
        for each in old:
            fresh = self._run()
            self.pods.append(fresh)
            self._await_available(fresh)
            self.pods.remove(each)
            self.ended.append(each)
            each.delete()
        for each in old:
            each.await_end()

    def _run(self) -> Pod:
        name = f"{self.manifest['metadata']['name']}-{next(self._serials)}"
        return self.kubelet.run(name, self.manifest["spec"]["template"])

    def _await_available(self, pod: Pod) -> None:
        """Wait until the pod has been ready for `minReadySeconds` without a pause."""
        needed_s = float(self.manifest["spec"].get("minReadySeconds", 0))
        since_s = float("inf")

        def is_available() -> bool:
            nonlocal since_s
            since_s = min(since_s, time.monotonic()) if pod.is_ready else float("inf")
            return time.monotonic() - since_s >= needed_s

        await_that(is_available, f"{pod.name} to be available", 90, pod.said)

    def _follow(self) -> None:
        """Bring the node's rules in line with the pods that were ready PROPAGATION_S ago."""
        seen: list[tuple[float, list[str]]] = []
        while not self._ending.wait(_TICK_S):
            ready = [pod.facts.address for pod in list(self.pods) if pod.is_ready]
            seen.append((time.monotonic(), ready))
            late = [each for at_s, each in seen if at_s <= time.monotonic() - PROPAGATION_S]
            if late and late[-1] != self.clients[0].endpoints:
                self._route(late[-1])
            seen = seen[max(len(late) - 1, 0) :]

    def _route(self, addresses: Sequence[str]) -> None:
        for each in self.clients:
            each.route_to(addresses)
