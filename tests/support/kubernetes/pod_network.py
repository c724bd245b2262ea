"""A node's pod network: a bridge on this machine, and for each pod a network namespace with an address on it.

The machine has the first address of the network, where a broker can listen: pods reach it, and it reaches the pods'
ports, as a kubelet does for its probes. `Service` is a cluster IP: kube-proxy's iptables rules, in the network
namespace of a pod that is a client of it.
"""

import itertools
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.support.kubernetes.runc import RuncUnavailableError

_FIRST_POD: Final = 20


def ip(*arguments: str) -> None:
    """Run `ip`; raises AssertionError with what it said."""
    _run("ip", *arguments)


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The network namespace of one pod, and its address."""

    name: str
    address: str

    @property
    def path(self) -> Path:
        """Return the file that stands for the namespace."""
        return Path("/run/netns", self.name)

    def run(self, *arguments: str) -> None:
        """Run a command in the namespace; raises AssertionError with what it said."""
        _run("ip", "netns", "exec", self.name, *arguments)


@dataclass(slots=True)
class NodeNetwork:
    """The bridge and all that hangs on it; a context manager. Addresses are PREFIX.1 to PREFIX.254.

    Entering raises RuncUnavailableError where no bridge can be made.
    """

    prefix: str = field(init=False)
    _bridge: str = field(init=False)
    _serials: "itertools.count[int]" = field(default_factory=lambda: itertools.count(_FIRST_POD))
    _pods: list[PodNetwork] = field(default_factory=list)

    def __post_init__(self) -> None:
        pid = os.getpid()
        self._bridge = f"sl{pid}"
        self.prefix = f"10.{64 + pid % 64}.{pid // 64 % 256}"

    @property
    def host(self) -> str:
        """Return this machine's address on the bridge."""
        return f"{self.prefix}.1"

    def __enter__(self) -> Self:
        try:
            ip("link", "add", self._bridge, "type", "bridge")
        except AssertionError as error:
            raise RuncUnavailableError(f"no network for pods: {error}") from error
        ip("addr", "add", f"{self.host}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for pod in list(self._pods):
            self.remove(pod)
        ip("link", "delete", self._bridge)

    def add(self) -> PodNetwork:
        """Return a new pod's network: loopback, and one address on the bridge."""
        serial = next(self._serials)
        pod = PodNetwork(f"{self._bridge}-{serial}", f"{self.prefix}.{serial}")
        outside = f"{self._bridge}v{serial}"
        ip("netns", "add", pod.name)
        self._pods.append(pod)
        ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", pod.name)
        ip("link", "set", outside, "master", self._bridge, "up")
        pod.run("ip", "link", "set", "lo", "up")
        pod.run("ip", "addr", "add", f"{pod.address}/24", "dev", "eth0")
        pod.run("ip", "link", "set", "eth0", "up")
        pod.run("ip", "route", "add", "default", "via", self.host)
        return pod

    def remove(self, pod: PodNetwork) -> None:
        """Remove a pod's network; the other end of its link ends with it."""
        self._pods.remove(pod)
        ip("netns", "delete", pod.name)


@dataclass(slots=True)
class Service:
    """A cluster IP as its client sees it: new connections go to an endpoint drawn from those that are ready.

    A connection that is established stays with its endpoint, ready or not, as the kernel's connection tracking has it.
    """

    client: PodNetwork
    address: str
    ports: Mapping[int, int]
    """Port of the Service to port of the pods."""
    endpoints: list[str] = field(default_factory=list)

    def route_to(self, endpoints: Sequence[str]) -> None:
        """Let new connections go to these addresses; none refuses them, as kube-proxy does."""
        self.endpoints = list(endpoints)
        nat = [
            f":{chain} ACCEPT [0:0]" for chain in ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING")
        ]
        refused = [f":{chain} ACCEPT [0:0]" for chain in ("INPUT", "FORWARD", "OUTPUT")]
        for port, target in self.ports.items():
            match = f"-d {self.address}/32 -p tcp --dport {port}"
            for left, endpoint in zip(range(len(endpoints), 0, -1), endpoints, strict=True):
                chance = (
                    f"-m statistic --mode random --probability {1 / left:.5f} " if left > 1 else ""
                )
                nat.append(
                    f"-A OUTPUT {match} {chance}-j DNAT --to-destination {endpoint}:{target}"
                )
            if not endpoints:
                refused.append(f"-A OUTPUT {match} -j REJECT --reject-with icmp-port-unreachable")
        tables = ["*nat", *nat, "COMMIT", "*filter", *refused, "COMMIT", ""]
        _run("ip", "netns", "exec", self.client.name, "iptables-restore", text="\n".join(tables))


def _run(*arguments: str, text: str = "") -> None:
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
