"""A kubelet for tests: it runs the pods of manifests with runc, by the kubelet's own rules (`pod`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.support.kubernetes.oci_config import Image
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_network import NodeNetwork, PodNetwork
from tests.support.kubernetes.pod_spec import PodFacts, containers_of
from tests.support.kubernetes.pod_volumes import Objects, PodVolumes


@dataclass(slots=True)
class Kubelet:
    """Runs pods below `directory`; a context manager that leaves nothing of them on the machine.

    `images` has the images that pods name; `objects` the config maps and secrets; `names` the addresses of Services.
    """

    directory: Path
    network: NodeNetwork
    images: dict[str, Image]
    objects: Objects = field(default_factory=Objects)
    names: dict[str, str] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self.pods:
            pod.remove()

    def run(self, name: str, template: Mapping[str, Any], network: PodNetwork | None = None) -> Pod:
        """Start the pod of a template (`spec.template` of a Deployment, or a Pod) and return at once."""
        network = network or self.network.add()
        metadata, spec = template.get("metadata", {}), template["spec"]
        facts = PodFacts(
            name,
            network.address,
            labels=metadata.get("labels", {}),
            annotations=metadata.get("annotations", {}),
        )
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        volumes = PodVolumes(directory / "volumes", self.objects)
        volumes.set_up(spec)
        hosts = {"localhost": "127.0.0.1", name: network.address, **self.names}
        text = "".join(f"{address} {each}\n" for each, address in hosts.items())
        (directory / "hosts").write_text(text)
        unknown = {each["image"] for each in containers_of(spec)} - self.images.keys()
        assert not unknown, f"images that are not here: {unknown}"
        pod = Pod(name, directory, spec, facts, network, volumes, self.images)
        self.pods.append(pod)
        pod.start()
        return pod

    def update_volumes(self) -> None:
        """Bring the volumes of every pod in line with the objects."""
        for pod in self.pods:
            pod.volumes.update()
