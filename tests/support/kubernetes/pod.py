"""A pod that runs, from its start to its end, by the kubelet's rules (KEP-753 for sidecars).

- Init containers start in their order; the next one waits until a sidecar (`restartPolicy: Always`) has started, or an
  ordinary init container has succeeded. Then all containers of the application start.
- The end of a container is noticed by the next look at the container engine, every RELIST_S seconds.
- At the end of the pod all preStop hooks run at once. The application's containers get SIGTERM after their hooks; when
  all of them have ended, the sidecars get SIGTERM, the last one first. At the end of the grace period the application's
  containers are killed; a sidecar gets SIGTERM and two more seconds.
- The pod is ready when each container is; a pod that ends is not.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tests.support.kafka.load import await_that
from tests.support.kubernetes.oci_config import Image, Mount
from tests.support.kubernetes.pod_container import PodContainer
from tests.support.kubernetes.pod_network import PodNetwork
from tests.support.kubernetes.pod_spec import PodFacts, Spec, arguments_of, environ_of, limits_of
from tests.support.kubernetes.pod_volumes import PodVolumes
from tests.support.kubernetes.runc import Container

RELIST_S: Final = 1.0
LAST_GRACE_S: Final = 2.0
DEFAULT_GRACE_S: Final = 30.0
_TICK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a container, in seconds since the epoch."""

    at_s: float
    container: str
    what: str


@dataclass(slots=True)
class Pod:
    """A pod that runs; `Kubelet.run` makes it."""

    name: str
    directory: Path
    spec: Spec
    facts: PodFacts
    network: PodNetwork
    volumes: PodVolumes
    images: Mapping[str, Image]
    events: list[Event] = field(default_factory=list)
    is_ending: bool = False
    has_ended: threading.Event = field(default_factory=threading.Event)
    faults: list[BaseException] = field(default_factory=list)
    _init: list[PodContainer] = field(default_factory=list)
    _application: list[PodContainer] = field(default_factory=list)
    _worker: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._init = [self._container(each) for each in self.spec.get("initContainers", ())]
        self._application = [self._container(each) for each in self.spec["containers"]]

    @property
    def containers(self) -> list[PodContainer]:
        """Return all of its containers."""
        return [*self._init, *self._application]

    @property
    def is_ready(self) -> bool:
        """Return whether it gets connections of a Service."""
        lasting = [each for each in self.containers if each.is_sidecar or each in self._application]
        return not self.is_ending and all(each.is_running and each.is_ready for each in lasting)

    def container(self, name: str) -> PodContainer:
        """Return one of its containers."""
        return next(each for each in self.containers if each.name == name)

    def start(self) -> None:
        """Begin to run it."""
        self._worker = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._worker.start()

    def await_ready(self, seconds: float = 60) -> None:
        """Wait until it is ready. Raises AssertionError with every log if it is not in time."""
        await_that(
            lambda: self.is_ready or bool(self.faults),
            f"{self.name} to be ready",
            seconds,
            self.said,
        )
        assert not self.faults, (self.faults, self.said())

    def delete(self) -> None:
        """Begin to end it (`kubectl delete pod`)."""
        self._tell("", "deleted")
        self.is_ending = True

    def await_end(self, seconds: float = 60) -> None:
        """Wait until all of its containers have ended. Raises AssertionError with every log if they do not."""
        await_that(self.has_ended.is_set, f"the end of {self.name}", seconds, self.said)
        assert not self.faults, (self.faults, self.said())

    def said(self) -> str:
        """Return its events and the logs of all starts of its containers."""
        lines = [f"{event.at_s:.2f} {event.container} {event.what}" for event in self.events]
        for each in self.containers:
            lines += [f"{run.name}: {run.said()[-3000:]}" for run in each.runs]
        return "\n".join(lines)

    def time_of(self, container: str, what: str) -> float:
        """Return when this last happened. Raises AssertionError if it did not."""
        found = [
            e.at_s for e in self.events if e.container == container and e.what.startswith(what)
        ]
        assert found, f"{container} was never {what!r}: {self.said()}"
        return found[-1]

    def note(self, container: str, what: str) -> None:
        """Add an event of the test's own."""
        self._tell(container, what)

    def has_happened(self, container: str, what: str, times: int) -> bool:
        """Return whether this has happened so many times."""
        return (
            sum(e.container == container and e.what.startswith(what) for e in self.events) >= times
        )

    def remove(self) -> None:
        """End it at once and remove its containers from the machine."""
        self.is_ending = True
        self.has_ended.set()
        if self._worker is not None:
            self._worker.join()
        for each in self.containers:
            each.stop_probing()
            for run in each.runs:
                run.remove()

    def _container(self, spec: Spec) -> PodContainer:
        return PodContainer(
            spec,
            spec.get("restartPolicy") == "Always",
            self.facts.address,
            "Never" not in {spec.get("restartPolicy"), self.spec.get("restartPolicy")},
            self._grace_s,
            partial(self._make, spec),
            self._tell,
        )

    def _make(self, spec: Spec, number: int) -> Container:
        image = self.images[spec["image"]]
        environ = environ_of(spec, self.spec, self.facts, image)
        return Container(
            self.directory / f"{spec['name']}-{number}",
            image,
            arguments_of(spec, image, environ),
            {**environ, "HOSTNAME": self.name},
            limits_of(spec, self.spec, image),
            self.network.path,
            [*self.volumes.mounts(spec), Mount(self.directory / "hosts", "/etc/hosts")],
            self.name,
        )

    def _tell(self, container: str, what: str) -> None:
        self.events.append(Event(time.time(), container, what))

    @property
    def _grace_s(self) -> float:
        return float(self.spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S))

    def _work(self) -> None:
        try:
            relist_s = 0.0
            while not self.is_ending:
                if time.monotonic() >= relist_s:
                    relist_s = time.monotonic() + RELIST_S
                    for each in self.containers:
                        each.notice_end()
                self._start_due()
                time.sleep(_TICK_S)
            if not self.has_ended.is_set():
                self._end()
        except BaseException as fault:  # noqa: BLE001 - the test that waits for the pod raises it
            self.faults.append(fault)
        self.has_ended.set()

    def _start_due(self) -> None:
        """Start the containers whose turn it is."""
        for each in self._init:
            if each.is_sidecar:
                each.start_if_due()
                if not each.is_started and not self._application[0].runs:
                    return
            elif not self._application[0].runs and 0 not in each.codes:
                each.start_if_due()
                return
        for each in self._application:
            each.start_if_due()

    def _end(self) -> None:
        """The end of the pod: see the module."""
        deadline_s = time.monotonic() + self._grace_s
        for each in self.containers:
            each.stop_probing()  # as the kubelet, which keeps readiness probes alone
        sidecars = [each for each in self._init if each.is_sidecar]
        hooks = [threading.Thread(target=each.pre_stop, daemon=True) for each in sidecars]
        ends = [
            threading.Thread(target=_stop, args=(each, deadline_s), daemon=True)
            for each in self._application
        ]
        for thread in (*hooks, *ends):
            thread.start()
        for thread in ends:
            thread.join()
        for each in reversed(sidecars):
            each.stop(max(deadline_s - time.monotonic(), LAST_GRACE_S))


def _stop(container: PodContainer, deadline_s: float) -> None:
    """Stop a container of the application: its hook, SIGTERM, SIGKILL at the deadline."""
    container.pre_stop()
    container.stop(max(deadline_s - time.monotonic(), LAST_GRACE_S))
