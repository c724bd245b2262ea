"""A request of which a policy needs the topics and groups that it names: Need.TOPICS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session.exchange import ObservedExchange
from wire.request_names import read_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.core.session.plan import Plan
    from wire.request_names import RequestNames

MAX_WHOLE_ELEMENTS = 1_000
"""Array elements and tags of a request that a policy needs whole: it is read in one step, in some 2 ms at most."""


class NamingExchange(ObservedExchange):
    """A request whose policies need the topics and groups that it names. Its frame is here until the verdict."""

    __slots__ = ("_at", "_frame", "names")

    names: RequestNames | None

    def __init__(
        self, plan: Plan, correlation_id: int, size_bytes: int, arrived_us: int, exchange_id: int
    ) -> None:
        self.hide()
        super().__init__(plan, correlation_id, size_bytes, arrived_us, exchange_id)

    def show(self, frame: bytearray, at: int, name_of: Mapping[bytes, str]) -> None:
        """Read the names in the body of `frame`, which begins `at`. `name_of`: topic names by id.

        Raises WireError if they cannot be read, or there are more than MAX_WHOLE_ELEMENTS.
        """
        self._frame, self._at = frame, at
        self.names = read_names(self.plan.api, frame, at, name_of, MAX_WHOLE_ELEMENTS)

    def hide(self) -> None:
        """Forget the frame and the names."""
        self._frame, self._at = bytearray(), 0
        self.names = None

    @property
    def body(self) -> bytes | None:
        """Return a copy of the whole body until the verdict; None later."""
        return bytes(memoryview(self._frame)[self._at :]) if self._frame else None

    @body.setter
    def body(self, value: bytes | None) -> None:
        """Do nothing: the body is that of the frame."""
