"""A broadcast to several observers: each is called in order, and none can harm another or a session."""

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


def test_an_observer_that_is_added_later_is_called_from_then_on():
    """This holds for references to a hook that were taken before."""
    book: list[str] = []
    fan = Broadcast([Ear(book, "first")])
    tell = fan.on_session_opened
    tell(PEER)
    fan.add([Ear(book, "late")])
    tell(PEER)
    assert book == ["first", "first", "late"]


def test_an_observer_that_raises_is_reported_and_stops_no_other():
    """The first observer writes the log; the last one is still called."""
    book: list[str] = []
    Broadcast([Ear(book, "log"), Deaf(book, "deaf"), Ear(book, "last")]).on_session_opened(PEER)
    assert book == ["log", "log: a bug", "last"]


def test_a_hook_that_no_observer_overrides_does_nothing():
    """No observer is called, and no error is reported."""
    book: list[str] = []
    Broadcast([Ear(book, "only")]).on_unmapped_node(99)
    assert book == []
