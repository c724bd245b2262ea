"""OTLP collectors for tests: one that decodes what it gets, real `rotel` before it, and those that misbehave."""

import gzip
import importlib.util
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from bench.harness.ports import free_ports
from bench.harness.processes import end, wait_accepting
from proxy.telemetry.traces.exporters import make_tracer
from proxy.telemetry.traces.tracer import Tracer

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 120.0
ARRIVAL_TIMEOUT_S: Final = 120.0


class Seen(NamedTuple):
    """A span as it arrived. Ids in hex; times in ns; `kind` and `status` are OTLP's numbers."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: tuple[tuple[str, str], ...]
    status: int
    resource: dict[str, Any]
    scope: tuple[str, str]

    @property
    def took_ns(self) -> int:
        return self.end_ns - self.start_ns


class Collector:
    """An OTLP/HTTP collector that remembers. It answers with `status`."""

    def __init__(self, port: int = 0) -> None:
        self.spans: list[Seen] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self._arrived = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    status = outer.status
                    if status == 200:
                        outer._take(self.path, dict(self.headers.items()), body)
                    self.send_response(status)
                    self.send_header("Content-Type", "application/x-protobuf")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    pass  # the client has gone

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        self._server = ThreadingHTTPServer((HOST, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._server.server_port}"

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment that sends spans to this collector."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint}

    def wait_for(self, count: int, timeout_s: float = ARRIVAL_TIMEOUT_S) -> list[Seen]:
        """Wait for at least so many spans; return them, oldest first."""
        with self._arrived:
            came = self._arrived.wait_for(lambda: len(self.spans) >= count, timeout_s)
            assert came, f"{len(self.spans)} spans of {count}: {[s.name for s in self.spans]}"
            return list(self.spans)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        assert path == "/v1/traces"
        headers = {name.lower(): value for name, value in headers.items()}
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        seen = decoded(ExportTraceServiceRequest.FromString(body))
        with self._arrived:
            self.headers.append(headers)
            self.spans += seen
            self._arrived.notify_all()


class BlackHole:
    """Accepts connections and never answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)

    @property
    def variables(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{self._socket.getsockname()[1]}"}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (*self._open, self._socket):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                self._open.append(self._socket.accept()[0])
            except OSError:
                return


def refusing() -> dict[str, str]:
    """Return an environment that sends spans to a port without a listener."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{free_ports(HOST, 1)}"}


def exporting() -> Tracer:
    """Return a tracer that exports as the environment says. It is not started."""
    limits = {"max_file_bytes": 1 << 20, "max_spans_per_second": 10_000}
    made = make_tracer(export="auto", file="", version="1.2.3", **limits)
    assert made is not None
    return made


def rotel(directory: Path) -> Iterator[tuple[str, Collector]]:
    """Start a real collector (rotel) that forwards to one of ours; yield its endpoint and ours. Skip without rotel."""
    with Collector() as behind, rotel_agent(directory, behind.endpoint) as endpoint:
        yield endpoint, behind


@contextmanager
def rotel_agent(directory: Path, target: str) -> Iterator[str]:
    """Run rotel, which forwards what it gets to the endpoint `target`; yield its own endpoint. Skips without rotel."""
    found = importlib.util.find_spec("rotel")
    program = Path(found.origin).with_name("rotel-agent") if found and found.origin else None
    if program is None or not program.exists():
        pytest.skip("no rotel here (a wheel for test)")
    http = free_ports(HOST, 2)
    said = directory / "rotel.log"
    with said.open("wb") as log:
        process = subprocess.Popen(
            [
                *(program, "start", "--log-format", "text"),
                *("--pid-file", directory / "rotel.pid", "--log-file", directory / "agent.log"),
                *("--otlp-http-endpoint", f"{HOST}:{http}"),
                *("--otlp-grpc-endpoint", f"{HOST}:{http + 1}"),
                *("--exporter", "otlp", "--otlp-exporter-protocol", "http"),
                *("--otlp-exporter-endpoint", target),
                *("--batch-timeout", "50ms"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_accepting(process, HOST, http, said.read_text, START_TIMEOUT_S)
        yield f"http://{HOST}:{http}"
    finally:
        end(process)


def decoded(request: ExportTraceServiceRequest) -> list[Seen]:
    """Return every span of an export request."""
    return [
        _seen(span, _attributes(of.resource.attributes), (scoped.scope.name, scoped.scope.version))
        for of in request.resource_spans
        for scoped in of.scope_spans
        for span in scoped.spans
    ]


def children(spans: list[Seen], of: Seen) -> list[Seen]:
    """Return the child spans, sorted by time."""
    found = [span for span in spans if span.parent_id == of.span_id]
    return sorted(found, key=lambda span: span.start_ns)


def _seen(span: SpanMessage, resource: Mapping[str, Any], scope: tuple[str, str]) -> Seen:
    return Seen(
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        span.status.code,
        dict(resource),
        scope,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(map(_value, value.array_value.values))
    return getattr(value, kind) if kind else None
