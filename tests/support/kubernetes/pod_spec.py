"""The reading of a pod's manifest: the parts that the kubelet hands to a container engine."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from tests.support.kubernetes.oci_config import Image, Limits

Spec = Mapping[str, Any]
_UNITS: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
}
_VARIABLE: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts of a pod that the downward API gives to it."""

    name: str
    address: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def value_of(self, path: str) -> str:
        """Return the value of a `fieldRef`. Raises AssertionError for a field that is not known here."""
        known = {
            "metadata.name": self.name,
            "metadata.namespace": self.namespace,
            "metadata.uid": f"uid-of-{self.name}",
            "spec.nodeName": "node-1",
            "status.podIP": self.address,
            "status.hostIP": self.address,
        }
        known |= {f"metadata.labels['{key}']": text for key, text in self.labels.items()}
        known |= {f"metadata.annotations['{key}']": text for key, text in self.annotations.items()}
        assert path in known, f"a field that is not known here: {path}"
        return known[path]


def bytes_of(quantity: str) -> int:
    """Return the bytes of a quantity of Kubernetes, such as 256Mi."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", quantity)
    assert match, f"no quantity: {quantity!r}"
    return ceil(float(match[1]) * _UNITS[match[2]])


def environ_of(container: Spec, pod: Spec, facts: PodFacts, image: Image) -> dict[str, str]:
    """Return the container's variables: of the image, then of the pod's spec in their order."""
    found = dict(image.environ)
    for entry in container.get("env", ()):
        found[entry["name"]] = _value_of(entry, container, pod, facts, found)
    return found


def _value_of(
    entry: Spec, container: Spec, pod: Spec, facts: PodFacts, before: Mapping[str, str]
) -> str:
    match entry.get("valueFrom"):
        case None:
            return _expanded(str(entry.get("value", "")), before)
        case {"fieldRef": {"fieldPath": path}}:
            return facts.value_of(path)
        case {"resourceFieldRef": {"resource": resource, **rest}}:
            named = rest.get("containerName", container["name"])
            owner = next(each for each in containers_of(pod) if each["name"] == named)
            kind, _, what = resource.partition(".")
            quantity = owner.get("resources", {}).get(kind, {}).get(what)
            assert quantity, f"{named} has no {resource}; the node's would be taken"
            return str(ceil(bytes_of(quantity) / bytes_of(str(rest.get("divisor", "1")))))
    raise AssertionError(f"a source that is not known here: {entry}")


def containers_of(pod: Spec) -> list[Spec]:
    """Return the init containers and the containers."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


def arguments_of(container: Spec, image: Image, environ: Mapping[str, str]) -> list[str]:
    """Return the command line: `command` replaces the image's entry point, `args` its command."""
    entry = container.get("command")
    arguments = container.get("args")
    if arguments is None:
        arguments = () if entry is not None else image.command
    words = [*(image.entrypoint if entry is None else entry), *arguments]
    return [_expanded(word, environ) for word in words]


def limits_of(container: Spec, pod: Spec, image: Image) -> Limits:
    """Return what the security contexts and limits allow. Raises AssertionError unless all privileges are dropped."""
    context = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    assert context["allowPrivilegeEscalation"] is False, context
    assert context["capabilities"] == {"drop": ["ALL"]}, context
    uid = context.get("runAsUser", image.user[0])
    assert uid != 0 or not context.get("runAsNonRoot"), "the image's user is root"
    memory = container.get("resources", {}).get("limits", {}).get("memory", "0")
    return Limits(
        user=(uid, context.get("runAsGroup", image.user[1])),
        memory_bytes=bytes_of(memory),
        is_root_read_only=bool(context.get("readOnlyRootFilesystem")),
        has_seccomp=context.get("seccompProfile", {}).get("type") == "RuntimeDefault",
        oom_score=_oom_score(container),
    )


def _oom_score(container: Spec) -> int:
    """Return the kubelet's `oom_score_adj` of a Burstable pod: the more memory is requested, the lower."""
    requested = container.get("resources", {}).get("requests", {}).get("memory", "0")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(1000 - 1000 * bytes_of(requested) // machine, 3), 999)


def port_of(container: Spec, port: int | str) -> int:
    """Return the number of a port that a probe names."""
    if isinstance(port, int):
        return port
    found = [each["containerPort"] for each in container["ports"] if each.get("name") == port]
    assert len(found) == 1, f"{container['name']} has {len(found)} ports called {port}"
    return int(found[0])


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """Return the text with $(VARIABLE) replaced; one that is not set stays as it is."""
    return _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), text)
