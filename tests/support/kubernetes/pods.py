"""Rules for the pods of rendered manifests that no schema has: each function returns its problems as texts."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.kubernetes.charts import Object

RESTRICTED_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}
"""https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


class Pod(NamedTuple):
    """The template of a pod: its object, its metadata and its spec."""

    owner: str
    labels: dict[str, str]
    spec: dict[str, Any]

    def containers(self) -> list[dict[str, Any]]:
        """Return all containers, those of initContainers first."""
        return [*(self.spec.get("initContainers") or ()), *self.spec["containers"]]

    def proxy(self) -> dict[str, Any]:
        """Return Sluice's container."""
        (found,) = (each for each in self.containers() if each["name"] == "sluice")
        return found


def pods(objects: list[Object]) -> list[Pod]:
    """Return the pod of every object that has one, with the volumes that a StatefulSet claims for it."""
    found = []
    for each in objects:
        template = each if each["kind"] == "Pod" else each.get("spec", {}).get("template")
        if template is not None:
            owner = f"{each['kind']}/{each['metadata']['name']}"
            labels = template["metadata"].get("labels", {})
            claims = [
                {"name": claim["metadata"]["name"], "persistentVolumeClaim": {}}
                for claim in each["spec"].get("volumeClaimTemplates", ())
            ]
            spec = template["spec"]
            if claims:
                spec = {**spec, "volumes": [*spec["volumes"], *claims]}
            found.append(Pod(owner, labels, spec))
    return found


def restricted(pod: Pod) -> Iterator[str]:
    """Yield what the Pod Security Standard `restricted` forbids, and a writable root."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(name):
            yield name
    for volume in pod.spec.get("volumes") or ():
        if kinds := volume.keys() - RESTRICTED_VOLUMES - {"name"}:
            yield f"volume {volume['name']}: {kinds}"
    for container in pod.containers():
        # Settings of the pod may be the application's: each container stands for itself.
        own = container.get("securityContext", {})
        wrong = {
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
            "capabilities": own.get("capabilities") != {"drop": ["ALL"]},
            "runAsNonRoot": own.get("runAsNonRoot") is not True,
            "runAsUser": not own.get("runAsUser"),
            "seccompProfile": own.get("seccompProfile") != {"type": "RuntimeDefault"},
            "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is not True,
            "privileged": own.get("privileged", False),
            "hostPort": any("hostPort" in each for each in container.get("ports", ())),
        }
        yield from (f"{container['name']}: {name}" for name, bad in wrong.items() if bad)


def unmanaged(pod: Pod) -> Iterator[str]:
    """Yield missing resources, an image without a version, a missing probe of Sluice's, a preStop of a sidecar."""
    for container in pod.containers():
        name, resources = container["name"], container.get("resources", {})
        if not {"cpu", "memory"} <= resources.get("requests", {}).keys():
            yield f"{name}: requests"
        if "memory" not in resources.get("limits", {}):
            yield f"{name}: no memory limit"
        if "cpu" in resources.get("limits", {}):
            yield f"{name}: a CPU limit"
        if not re.search(r":(?!latest$)[^:/@]+$|@sha256:[0-9a-f]{64}$", container["image"]):
            yield f"{name}: image {container['image']}"
        if "preStop" in container.get("lifecycle", {}) and container.get("restartPolicy"):
            yield f"{name}: preStop runs before the application has ended"
        if name == "sluice":
            yield from (f"{name}: no {each}" for each in PROBES if each not in container)


def dangling(pod: Pod, objects: list[Object]) -> Iterator[str]:
    """Yield references that lead nowhere: names of containers, ports, volumes, and of ConfigMaps of this release."""
    names = [each["name"] for each in pod.containers()]
    if len(set(names)) != len(names):
        yield f"containers: {names}"
    volumes = {each["name"]: each for each in pod.spec.get("volumes") or ()}
    used = set()
    for container in pod.containers():
        mounts = container.get("volumeMounts", ())
        used |= {each["name"] for each in mounts}
        paths = [each["mountPath"] for each in mounts]
        if len(set(paths)) != len(paths):
            yield f"{container['name']}: two volumes at one path: {paths}"
        if any("subPath" in each for each in mounts):
            yield f"{container['name']}: subPath is never updated"
        ports = {each.get("name") for each in container.get("ports", ())}
        for probe in PROBES:
            port = container.get(probe, {}).get("httpGet", {}).get("port")
            if isinstance(port, str) and port not in ports:
                yield f"{container['name']}: {probe} of port {port}"
        for variable in container.get("env", ()):
            field = variable.get("valueFrom", {}).get("resourceFieldRef", {})
            if field and field["containerName"] not in names:
                yield f"{container['name']}: {variable['name']} of container {field['containerName']}"
    if used != volumes.keys():
        yield f"volumes: {used ^ volumes.keys()}"
    there = {each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"}
    named = {each["configMap"]["name"] for each in volumes.values() if "configMap" in each}
    yield from (f"no ConfigMap {each}" for each in named - there)


def problems(objects: list[Object]) -> list[str]:
    """Return the problems of all pods by all rules."""
    return [
        f"{pod.owner}: {each}"
        for pod in pods(objects)
        for rule in (restricted(pod), unmanaged(pod), dangling(pod, objects))
        for each in rule
    ]
