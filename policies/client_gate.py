"""The gate of one client and API as the core calls it, without an integer object in the compiled build."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.api import Gate


class ClientGate:
    """The gate of one client and API, as the core calls it."""

    __slots__ = ()

    def passes(self, size_bytes: int, now_ms: int) -> bool:
        """Return whether a request of this size is forwarded; if not, nothing has changed."""
        raise NotImplementedError


class CalledGate(ClientGate):
    """A gate that is a function of a policy: it passes what the function returns True for, and nothing else."""

    __slots__ = ("_call",)

    def __init__(self, call: Gate) -> None:
        self._call = call

    def passes(self, size_bytes: int, now_ms: int) -> bool:
        """See ClientGate."""
        return self._call(size_bytes, now_ms) is True
