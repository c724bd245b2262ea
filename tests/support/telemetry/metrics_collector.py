"""An OTLP collector for metrics, on loopback: it decodes what it gets and remembers it."""

import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric


class Heard:
    """The requests that a collector got. It answers with `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.requests: list[ExportMetricsServiceRequest] = []

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics of the last request by name; all have our scope."""
        found = {}
        for sender in self.requests[-1].resource_metrics:
            for scope in sender.scope_metrics:
                assert scope.scope.name == "sluice"
                found.update({metric.name: metric for metric in scope.metrics})
        return found


def attributes(pairs: Iterable[KeyValue]) -> dict[str, str]:
    """Text attributes as a dict."""
    return {pair.key: pair.value.string_value for pair in pairs}


@contextmanager
def listening(heard: Heard) -> Iterator[int]:
    """The collector's port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            heard.paths.append(self.path)
            heard.headers.append({key.lower(): value for key, value in self.headers.items()})
            heard.requests.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(heard.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
