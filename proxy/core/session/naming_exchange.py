"""A request of which a policy needs what it names: Need.TOPICS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session.exchange import ObservedExchange
from wire.asks import asks_of
from wire.errors import BudgetError
from wire.request_names import TOO_MANY, read_names, reading_names

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from proxy.core.session.plan import Plan
    from wire.authorization import Ask
    from wire.request_names import RequestNames

MAX_WHOLE_ELEMENTS = 1_000
"""Array elements and tags of a request that a policy needs whole and that is read in one step, in some 2 ms at most. A
larger one is read in turns."""
MAX_NAMES = 1_000
"""What a request may name to be judged in one step."""
MAX_ELEMENTS = 25_000
"""The same of a larger one: 10,000 topics of a partition each fit. One with more is refused."""


class NamingExchange(ObservedExchange):
    """A request whose policies need what it names. Its frame is here until the verdict."""

    __slots__ = ("_asks", "_at", "_end", "_frame", "names")

    names: RequestNames | None
    _asks: tuple[Ask, ...] | None
    _frame: bytearray | None

    def __init__(
        self, plan: Plan, correlation_id: int, size_bytes: int, arrived_us: int, exchange_id: int
    ) -> None:
        self._frame = self._asks = None
        self.names = None
        super().__init__(plan, correlation_id, size_bytes, arrived_us, exchange_id)

    # `Session` makes one without __init__; `show` sets what is here.

    def show(self, frame: bytearray, at: int, end: int, name_of: Mapping[bytes, str]) -> None:
        """Read the names in the body, which is frame[at:end]. `name_of`: topic names by id.

        Raises WireError if they cannot be read, BudgetError if there are more than MAX_WHOLE_ELEMENTS.
        """
        self._frame, self._at, self._end = frame, at, end
        self.decoded = self._asks = None
        self.names = read_names(self.plan.api, frame, at, end, name_of, MAX_WHOLE_ELEMENTS)

    def show_again(self, frame: bytearray, at: int, end: int, name_of: Mapping[bytes, str]) -> None:
        """Do as `show` for a request that was read before and held, of any size: in one step, once for each hold."""
        for _ in self.show_in_turns(frame, at, end, name_of):
            pass

    def show_in_turns(
        self, frame: bytearray, at: int, end: int, name_of: Mapping[bytes, str]
    ) -> Generator[None, None, None]:
        """Do as `show` for a request of any size, with pauses. The names are TOO_MANY beyond MAX_ELEMENTS."""
        self._frame, self._at, self._end = frame, at, end
        self.decoded = self._asks = None
        reading = reading_names(self.plan.api, frame, at, end, name_of, MAX_ELEMENTS)
        try:
            self.names = yield from reading
        except BudgetError:
            self.names = TOO_MANY

    @property
    def is_large(self) -> bool:
        """Whether it names so much that policies prepare its judgement in turns."""
        names = self.names
        if names is None:
            return False
        return len(names.topics) + len(names.groups) + len(names.transactional_ids) > MAX_NAMES

    def hide(self) -> None:
        """Forget the frame and the names."""
        self._frame = self.names = self._asks = None

    def forget_frame(self) -> None:
        """Forget the frame, whose bytes change now. The names stay."""
        self._frame = None

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Return `Request.asks`: made once, for all who ask."""
        asks = self._asks
        if asks is None:
            asks = self._asks = asks_of(self.plan.api, self._known())
        return asks

    @property
    def body(self) -> bytes | None:
        """Return a copy of the whole body until the verdict; None later."""
        frame = self._frame
        return None if frame is None else bytes(memoryview(frame)[self._at : self._end])

    @body.setter
    def body(self, value: bytes | None) -> None:
        """Do nothing: the body is that of the frame."""
