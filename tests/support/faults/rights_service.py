"""A small HTTP service that answers as a test says: it may refuse, and it may not answer at all."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class RightsService:
    """Answers `status` to each question while `gate` is set; else it lets the caller wait."""

    url: str = ""
    status: int = 200
    questions: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)


@contextmanager
def rights_service() -> Iterator[RightsService]:
    """Serve on a loopback port."""
    service = RightsService()

    class Handler(BaseHTTPRequestHandler):
        """Answers GET."""

        def do_GET(self) -> None:
            """Answer when the gate is open."""
            service.questions.append(self.path)
            service.gate.wait()
            self.send_response(service.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        service.url = f"http://127.0.0.1:{server.server_address[1]}/topics?user="
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            service.gate.set()
            server.shutdown()
            thread.join()
