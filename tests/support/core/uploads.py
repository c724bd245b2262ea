"""Clients that send one request at a rate of their own, on virtual time, and clients that are quick."""

from proxy.core.engine import Engine
from tests.support.core.memory import Link

WINDOW_BYTES = 64 << 10
"""The most that the kernel takes of a client that is not read."""
QUICK_BYTES_PER_MS = 100_000


class Upload:
    """A client that sends `request` at so many bytes per millisecond; it may pause or go away."""

    def __init__(
        self, engine: Engine, request: bytes, rate: float, host: str, node_id: int | None = None
    ) -> None:
        self.engine, self.request, self.rate = engine, request, rate
        self.link = Link(engine, host, node_id=node_id)
        self.began_ms = engine.now_ms
        self.took_ms: int | None = None
        self.sent = 0
        self.credit = 0.0

    @property
    def is_done(self) -> bool:
        return self.took_ms is not None

    @property
    def is_cut(self) -> bool:
        return self.link.session.ended and not self.is_done

    def send(self, elapsed_ms: int) -> None:
        """Send what its rate allows in this time, and the kernel takes."""
        link = self.link
        if link.session.ended or self.is_done:
            return
        self.credit += self.rate * elapsed_ms
        while self.credit >= 1 and self.sent < len(self.request):
            size = min(int(self.credit), WINDOW_BYTES - link.unread_bytes)
            if size <= 0:
                self.credit = min(self.credit, WINDOW_BYTES)
                break
            link.client(self.request[self.sent : self.sent + size])
            size = min(size, len(self.request) - self.sent)
            self.sent += size
            self.credit -= size
        if link.session.broker.sent_bytes or link.to_broker:
            self.look()

    def look(self) -> None:
        """Note when the request has reached the broker."""
        if not self.is_done and len(self.link.to_broker) >= len(self.request):
            self.took_ms = self.engine.now_ms - self.began_ms

    def leave(self) -> None:
        """Close the connection; the event loop closes both sides."""
        session = self.link.session
        if session.handle is not None:
            session.client_lost(self.engine.now_ms)
            self.link.settle()
            self.link.release()


class Crowd:
    """Uploads that make progress together, a step of virtual time after the other."""

    def __init__(self, engine: Engine, step_ms: int = 100) -> None:
        self.engine, self.step_ms = engine, step_ms
        self.uploads: list[Upload] = []

    def add(self, request: bytes, rate: float, host: str, node_id: int | None = None) -> Upload:
        upload = Upload(self.engine, request, rate, host, node_id)
        self.uploads.append(upload)
        upload.send(self.step_ms)
        return upload

    def step(self) -> None:
        """Let time pass; the connections of ended sessions are closed."""
        for upload in self.uploads:
            upload.send(self.step_ms)
        self.engine.advance(self.engine.now_ms + self.step_ms)
        for upload in self.uploads[:1]:
            upload.link.give_turns()
        for upload in self.uploads:
            upload.look()
            if upload.link.session.ended and upload.link.session.handle is not None:
                upload.link.settle()
                upload.link.release()

    def await_done(self, upload: Upload, max_ms: int) -> int:
        """Return after how many ms the request has reached its broker; at most `max_ms`."""
        while not upload.is_done and self.engine.now_ms - upload.began_ms < max_ms:
            self.step()
        return max_ms if upload.took_ms is None else upload.took_ms
