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

    __slots__ = ("_at", "_end", "_frame", "names")

    names: RequestNames | None
    _frame: bytearray | None

    def __init__(
        self, plan: Plan, correlation_id: int, size_bytes: int, arrived_us: int, exchange_id: int
    ) -> None:
        self._frame = None
        self.names = None
        super().__init__(plan, correlation_id, size_bytes, arrived_us, exchange_id)

    # `Session` makes one without __init__; `show` sets what is here.

    def show(self, frame: bytearray, at: int, end: int, name_of: Mapping[bytes, str]) -> None:
        """Read the names in the body, which is frame[at:end]. `name_of`: topic names by id.

        Raises WireError if they cannot be read, or there are more than MAX_WHOLE_ELEMENTS.
        """
        self._frame, self._at, self._end = frame, at, end
        self.decoded = None
        self.names = read_names(self.plan.api, frame, at, end, name_of, MAX_WHOLE_ELEMENTS)

    def hide(self) -> None:
        """Forget the frame and the names."""
        self._frame = self.names = None

    def forget_frame(self) -> None:
        """Forget the frame, whose bytes change now. The names stay."""
        self._frame = None

    @property
    def body(self) -> bytes | None:
        """Return a copy of the whole body until the verdict; None later."""
        frame = self._frame
        return None if frame is None else bytes(memoryview(frame)[self._at : self._end])

    @body.setter
    def body(self, value: bytes | None) -> None:
        """Do nothing: the body is that of the frame."""
