"""One port for all brokers: the name that a client asks for in its TLS handshake (SNI) selects one.

- `sni_pattern` with a node's id in the place of $(node) is that node; the advertised host is the bootstrap.
- Any other name, and none at all, is refused in the handshake (as Kroxylicious does), so that a client that has the
  wrong name learns it there. Upper and lower case are the same (RFC 6066).
- In TLS 1.2 a resumed session keeps the name of its first handshake; no client may resume it for another (RFC 6066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerNames:
    """The names that clients may ask for. `hosts` is by node id."""

    __slots__ = ("_nodes",)

    def __init__(self, bootstrap_host: str, hosts: Mapping[int, str]) -> None:
        self._nodes: dict[str, int | None] = {_plain(host): node for node, host in hosts.items()}
        self._nodes[_plain(bootstrap_host)] = None

    def knows(self, name: str | None) -> bool:
        """Return whether clients may ask for this name."""
        return name is not None and _plain(name) in self._nodes

    def node_of(self, name: str) -> int | None:
        """Return the node of a name that is known; None is the bootstrap."""
        return self._nodes[_plain(name)]


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")
