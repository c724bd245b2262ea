"""The configuration of a container for runc: its image, mounts and limits, as an engine writes them (OCI runtime-spec).

A container gets namespaces of its own for processes, mounts, IPC and the host name, and the network namespace of its
pod; `/proc`, `/dev`, `/sys` and its cgroup as engines mount them; no capability; a memory limit; and the engines'
seccomp profile (`RuntimeDefault`), where the machine has it.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

SECCOMP: Final = Path("/usr/share/containers/seccomp.json")
_ARCHITECTURES: Final = {
    "x86_64": ("amd64", "SCMP_ARCH_X86_64"),
    "aarch64": ("arm64", "SCMP_ARCH_AARCH64"),
}
_NAMESPACES: Final = ("pid", "ipc", "uts", "mount")
_DEVICES: Final = ("nosuid", "noexec")
_MOUNTS: Final = [
    ("/proc", "proc", "proc", ()),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/pts", "devpts", "devpts", (*_DEVICES, "newinstance", "ptmxmode=0666", "mode=0620")),
    ("/dev/shm", "tmpfs", "shm", (*_DEVICES, "nodev", "mode=1777", "size=65536k")),  # noqa: S108 - of the container
    ("/sys", "sysfs", "sysfs", (*_DEVICES, "nodev", "ro")),
    ("/sys/fs/cgroup", "cgroup", "cgroup", (*_DEVICES, "nodev", "relatime", "ro")),
]


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host inside a container."""

    source: Path
    target: str
    is_read_only: bool = True


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system and what an image says of its process."""

    root: Path
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: tuple[int, int] = (0, 0)
    mounts: Sequence[Mount] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a container. `memory_bytes` 0 is no limit.

    `oom_score` (0 to 1000) makes it the kernel's victim before processes with a lower one.
    """

    user: tuple[int, int] = (65532, 65532)
    memory_bytes: int = 0
    is_root_read_only: bool = True
    has_seccomp: bool = True
    oom_score: int = 0


def oci_config(
    name: str,
    image: Image,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    limits: Limits,
    network: Path,
    mounts: Sequence[Mount],
    hostname: str,
) -> dict[str, Any]:
    """Return the config.json of a container; its cgroups are called `name`."""
    uid, gid = limits.user
    namespaces: list[dict[str, str]] = [{"type": each} for each in _NAMESPACES]
    namespaces.append({"type": "network", "path": str(network)})
    memory = limits.memory_bytes
    resources: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}]}
    if memory:
        resources["memory"] = {"limit": memory, "swap": memory}
    linux: dict[str, Any] = {
        "namespaces": namespaces,
        "resources": resources,
        "cgroupsPath": f"/{name}",
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/sys/firmware"],
        "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger"],
    }
    if limits.has_seccomp and (profile := runtime_default()):
        linux["seccomp"] = profile
    none: list[str] = []
    return {
        "ociVersion": "1.0.2",
        "hostname": hostname,
        "root": {"path": str(image.root.resolve()), "readonly": limits.is_root_read_only},
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": list(arguments),
            "env": [f"{key}={value}" for key, value in environ.items()],
            "cwd": image.directory,
            "capabilities": dict.fromkeys(
                ("bounding", "effective", "inheritable", "permitted", "ambient"), none
            ),
            "noNewPrivileges": True,
            "oomScoreAdj": limits.oom_score,
        },
        "mounts": [
            *(
                {"destination": where, "type": kind, "source": source, "options": list(options)}
                for where, kind, source, options in _MOUNTS
            ),
            *map(_bind, (*image.mounts, *mounts)),
        ],
        "linux": linux,
    }


def _bind(mount: Mount) -> dict[str, Any]:
    return {
        "destination": mount.target,
        "type": "bind",
        "source": str(mount.source),
        "options": ["rbind", "rprivate", "ro" if mount.is_read_only else "rw"],
    }


@cache
def runtime_default() -> dict[str, Any] | None:
    """Return the engines' seccomp profile for a process without capabilities; None if the machine has none."""
    if not SECCOMP.is_file():
        return None
    profile = json.loads(SECCOMP.read_text())
    machine, architecture = _ARCHITECTURES[platform.machine()]
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile["defaultErrnoRet"],
        "architectures": [architecture],
        "syscalls": [
            {
                "names": rule["names"],
                "action": rule["action"],
                **({"errnoRet": rule["errnoRet"]} if "errnoRet" in rule else {}),
                **({"args": rule["args"]} if rule["args"] else {}),
            }
            for rule in profile["syscalls"]
            if "caps" not in rule["includes"]
            and machine in rule["includes"].get("arches", [machine])
        ],
    }
