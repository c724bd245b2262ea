"""The volumes of a pod on its node: config maps and secrets as the kubelet writes them, and empty folders.

The files of a config map lie in a folder of their own; `..data` leads to it, and each file is a link through `..data`.
An update writes a new folder and renames a new link over `..data`, so readers see all old files or all new ones.
"""

import base64
import itertools
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.kubernetes.oci_config import Mount

_LINK: Final = "..data"


@dataclass(slots=True)
class Objects:
    """The config maps and secrets of a namespace, by name: file name to text."""

    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)

    def apply(self, manifest: Mapping[str, Any]) -> None:
        """Take a ConfigMap or Secret; other kinds are ignored."""
        name = manifest["metadata"]["name"]
        if manifest["kind"] == "ConfigMap":
            self.config_maps[name] = dict(manifest["data"])
        elif manifest["kind"] == "Secret":
            decoded = {
                key: base64.b64decode(value).decode()
                for key, value in manifest.get("data", {}).items()
            }
            self.secrets[name] = decoded | dict(manifest.get("stringData", {}))


@dataclass(slots=True)
class PodVolumes:
    """The volumes of one pod, below `directory`."""

    directory: Path
    objects: Objects
    _specs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _serials: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def set_up(self, pod: Mapping[str, Any]) -> None:
        """Make every volume of the pod. Raises AssertionError for a kind of volume that is not known here."""
        for spec in pod.get("volumes", ()):
            self._specs[spec["name"]] = spec
            folder = self.directory / spec["name"]
            folder.mkdir(parents=True)
            if "emptyDir" in spec:
                folder.chmod(0o777)
        self.update()

    def update(self) -> None:
        """Bring the files in line with the objects, as the kubelet does within a minute or so."""
        for name, spec in self._specs.items():
            if "emptyDir" not in spec:
                _swap(self.directory / name, self._files(spec), next(self._serials))

    def mounts(self, container: Mapping[str, Any]) -> list[Mount]:
        """Return the mounts of a container."""
        found = []
        for mount in container.get("volumeMounts", ()):
            source = self.directory / mount["name"] / mount.get("subPath", "")
            is_writable = "emptyDir" in self._specs[mount["name"]] and not mount.get("readOnly")
            found.append(Mount(source, mount["mountPath"], is_read_only=not is_writable))
        return found

    def _files(self, spec: Mapping[str, Any]) -> dict[str, str]:
        match spec:
            case {"configMap": {"name": name, **rest}}:
                return _items(self.objects.config_maps[name], rest)
            case {"secret": {"secretName": name, **rest}}:
                return _items(self.objects.secrets[name], rest)
            case {"projected": {"sources": sources}}:
                files: dict[str, str] = {}
                for source in sources:
                    files |= self._projected(source)
                return files
        raise AssertionError(f"a kind of volume that is not known here: {spec}")

    def _projected(self, source: Mapping[str, Any]) -> dict[str, str]:
        match source:
            case {"configMap": {"name": name, **rest}}:
                return _items(self.objects.config_maps[name], rest)
            case {"secret": {"name": name, **rest}}:
                return _items(self.objects.secrets[name], rest)
        raise AssertionError(f"a kind of source that is not known here: {source}")


def _items(files: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that `items` picks, all without it."""
    items = spec.get("items")
    if items is None:
        return dict(files)
    return {item["path"]: files[item["key"]] for item in items}


def _swap(folder: Path, files: Mapping[str, str], serial: int) -> None:
    """Replace the contents of the volume at once, if they differ."""
    link = folder / _LINK
    if link.exists() and {each.name: each.read_text() for each in link.iterdir()} == files:
        return
    before = link.readlink() if link.is_symlink() else None
    fresh = folder / f"..2026_11_23_{serial:04}"
    fresh.mkdir()
    for name, text in files.items():
        (fresh / name).write_text(text)
        (fresh / name).chmod(0o644)
    swapped = folder / "..data_tmp"
    swapped.symlink_to(fresh.name)
    swapped.replace(link)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{_LINK}/{name}")
    if before is not None:
        shutil.rmtree(folder / before)
