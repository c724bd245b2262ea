"""Server-sent events: one a second, the same for all viewers, and at most so many viewers."""

import json

import pytest
import trio
from starlette.types import Message

from proxy.admin.live_state import LiveState
from proxy.admin.sse import MAX_STREAMS, EventStreams
from tests.support.processes.admin_room import everything, roomy
from tests.support.processes.asgi import ask


class Viewer:
    """A client of the stream; setting `gone` disconnects it."""

    def __init__(self) -> None:
        self.status = 0
        self.events: list[bytes] = []
        self.gone = trio.Event()

    async def look(self, streams: EventStreams) -> None:
        await streams.serve({"type": "http", "method": "GET"}, self._receive, self._send)

    async def _receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.events.append(message["body"])


@pytest.fixture
def streams():
    with roomy() as room:
        yield EventStreams(LiveState(room.service, room.loop_lag))


async def test_an_event_comes_at_once_and_then_each_second(streams, nursery, autojump_clock):
    """Each has the form of a server-sent event."""
    viewer = Viewer()
    nursery.start_soon(viewer.look, streams)
    await trio.sleep(3.5)
    assert len(viewer.events) == 4
    kind, data, *end = viewer.events[0].split(b"\n")
    assert kind == b"event: state"
    assert json.loads(data.removeprefix(b"data: "))["point"]
    assert end == [b"", b""]
    nursery.cancel_scope.cancel()


async def test_a_viewer_that_disconnects_is_removed_at_once(streams, nursery, autojump_clock):
    """It is removed before the next event."""
    viewer = Viewer()
    nursery.start_soon(viewer.look, streams)
    await trio.sleep(0.5)
    assert streams.count == 1
    viewer.gone.set()
    await trio.sleep(0.1)
    assert streams.count == 0


async def test_the_number_of_viewers_is_limited(streams, nursery, autojump_clock):
    """One more gets 503; it is accepted after another has left."""
    looking = [Viewer() for _ in range(MAX_STREAMS)]
    for viewer in looking:
        nursery.start_soon(viewer.look, streams)
    await trio.sleep(0.1)
    late = Viewer()
    await late.look(streams)
    assert late.status == 503
    looking[0].gone.set()
    await trio.sleep(0.1)
    nursery.start_soon(late.look, streams)
    await trio.sleep(0.1)
    assert late.status == 200
    nursery.cancel_scope.cancel()


async def test_a_head_request_for_the_stream_is_answered_and_ends():
    """It has no body; an unknown parameter is refused."""
    with roomy() as room:
        answer = await ask(everything(room), "/v1/events", "HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert (await ask(everything(room), "/v1/events?x=1")).status == 400
