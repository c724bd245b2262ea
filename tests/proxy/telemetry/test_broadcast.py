"""Several listeners: each is told, in order, and none can hurt the others or a session."""

from __future__ import annotations

from policies.api import Peer
from proxy.core.observer import Observer
from proxy.telemetry.broadcast import Broadcast

PEER = Peer(1, "10.0.0.9", 40000)


class Ear(Observer):
    def __init__(self, book: list[str], name: str) -> None:
        self.book = book
        self.name = name

    def on_session_opened(self, peer: Peer) -> None:
        self.book.append(self.name)

    def on_internal_error(self, error: BaseException) -> None:
        self.book.append(f"{self.name}: {error}")


class Deaf(Ear):
    def on_session_opened(self, peer: Peer) -> None:
        raise RuntimeError("a bug")


def test_each_listener_is_told_in_order():
    """All that the core says, whoever else listens."""
    book: list[str] = []
    Broadcast([Ear(book, "first"), Ear(book, "second")]).on_session_opened(PEER)
    assert book == ["first", "second"]


def test_a_listener_that_comes_later_hears_from_then_on():
    """Also where what tells it was taken hold of before."""
    book: list[str] = []
    fan = Broadcast([Ear(book, "first")])
    tell = fan.on_session_opened
    tell(PEER)
    fan.add([Ear(book, "late")])
    tell(PEER)
    assert book == ["first", "first", "late"]


def test_a_listener_that_raises_is_told_of_and_stops_nobody():
    """The first one writes the log; the last one still hears."""
    book: list[str] = []
    Broadcast([Ear(book, "log"), Deaf(book, "deaf"), Ear(book, "last")]).on_session_opened(PEER)
    assert book == ["log", "log: a bug", "last"]


def test_what_nobody_listens_to_is_said_to_nobody():
    """The hook does nothing, as the core's own does."""
    Broadcast([Ear([], "only")]).on_unmapped_node(99)
