"""The server on real sockets: what each listener serves, and that a slow client delays no other."""

import json
import os
import socket
import stat
from contextlib import suppress

import h11
import pytest
import structlog
import trio
import trio.testing

from bench.harness.ports import free_ports
from proxy.admin.errors import NO_PATH
from proxy.admin.middleware import MAX_BODY_BYTES
from proxy.admin.schemas import QuotaLimits
from proxy.admin.server import log_fault, serve
from proxy.config.telemetry import MAX_ADMIN_CONNECTIONS, AdminSettings
from proxy.telemetry import log
from proxy.telemetry.line_limits import LIMITS
from proxy.telemetry.loop_lag import LoopLag
from tests.support.processes.admin_room import TOKEN, AdminRoom, config_of, opened, quota_entry

OPEN = ("/startup", "/live", "/ready", "/metrics", "/version")
CLOSED = ("/", "/static/app.js", "/v1/state", "/v1/events", "/openapi.json")


@pytest.fixture
async def room(tmp_path):
    async with opened(tmp_path, policies=(quota_entry(),)) as made:
        yield made


def there(path: str) -> bool:
    return os.path.lexists(path)


def address(where: str) -> tuple[str, int]:
    host, port = where.split(":")
    return host, int(port)


async def first_line(lines, event: str):
    """Return the first line of this event, which is written after the answer."""
    with trio.fail_after(60):
        while not (found := [each for each in lines if each["event"] == event]):  # noqa: ASYNC110 - a log has no Event
            await trio.sleep(0.01)
    return found[0]


async def test_the_open_listener_serves_open_paths_only(room):
    """Clients in the pod's network see no client names except those in metrics."""
    async with room.http("listen", host="10.1.2.3:9644") as http:
        for path in OPEN:
            assert (await http.get(path)).status_code == 200
        for path in CLOSED:
            answer = await http.get(path)
            assert (answer.status_code, answer.json()) == (404, {"error": NO_PATH})
        answer = await http.post("/v1/drain", headers={"content-type": "application/json"})
        assert answer.status_code == 404
    assert not room.drained


async def test_the_socket_and_the_control_listener_serve_everything(room):
    """The socket's mode lets only its owner open it; the control listener needs the token, except for the page."""
    assert stat.S_IMODE(os.lstat(room.admin.socket).st_mode) == 0o600
    async with room.http("socket") as http:
        for path in (*OPEN, "/", "/static/app.js", "/v1/state", "/openapi.json"):
            assert (await http.get(path)).status_code == 200

    async with room.http("control") as http:
        for path in (*OPEN, "/", "/static/app.js", "/v1/state"):
            assert (await http.get(path)).status_code == 200
        del http.headers["authorization"]
        assert (await http.get("/")).status_code == 200
        assert (await http.get("/v1/state")).status_code == 401


async def test_a_preflight_of_another_site_is_refused(room):
    """A browser asks before another site may send JSON."""
    asks = {"origin": "http://attacker.example", "access-control-request-method": "PUT"}
    for way, path, status in (
        ("control", "/v1/quotas", 403),
        ("control", "/", 405),
        ("listen", "/live", 405),
    ):
        async with room.http(way, **asks) as http:
            answer = await http.options(path)
        assert answer.status_code == status
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_long_is_not_read(room, chunked):
    """It is refused by its Content-Length or after 64 KiB of chunks; nothing is changed, and it is logged."""
    length = "transfer-encoding: chunked" if chunked else f"content-length: {MAX_BODY_BYTES + 1}"
    head = (
        "PUT /v1/log-level HTTP/1.1",
        f"host: {room.admin.control}",
        f"authorization: Bearer {TOKEN}",
        "content-type: application/json",
        length,
    )
    body = (b"400\r\n" + b" " * 1024 + b"\r\n") * 65 if chunked else b""
    with structlog.testing.capture_logs() as lines:
        async with await trio.open_tcp_stream(*address(room.admin.control)) as stream:
            await stream.send_all("\r\n".join((*head, "", "")).encode() + body)
            with trio.fail_after(60):
                answer = await stream.receive_some()
            line = await first_line(lines, "admin_refused")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert line["status"] == 413


@pytest.mark.parametrize(
    ("method", "path", "body", "fields"),
    [
        ("PUT", "/v1/log-level", {"level": "error"}, {"level": "error", "before": "info"}),
        (
            "PUT",
            "/v1/quotas?client_id=c",
            {"request_rate": 5},
            {"user": None, "client_id": "c", "quotas": {"request_rate": 5.0}},
        ),
        (
            "DELETE",
            "/v1/quotas?user=a&quota=request_rate",
            {},
            {"user": "a", "client_id": None, "quotas": {"request_rate": None}},
        ),
        (
            "DELETE",
            "/v1/quotas?user=a",
            {},
            {
                "user": "a",
                "client_id": None,
                "quotas": dict.fromkeys(QuotaLimits.__struct_fields__),
            },
        ),
        ("POST", "/v1/reload", {}, {"changed": [], "problems": 0}),
    ],
    ids=["level", "quota set", "quota removed", "all quotas removed", "reload"],
)
async def test_the_log_line_of_a_change_has_the_new_values(room, method, path, body, fields):
    """An operator can read from the log what was changed, and by which caller: the kernel reports the user id."""
    log.set_level("info")
    with structlog.testing.capture_logs() as lines:
        async with room.http("socket") as http:
            answer = await http.request(method, path, json=body)
            line = await first_line(lines, "admin_change")
    log.set_level("info")
    assert answer.status_code == 200
    assert {name: line[name] for name in fields} == fields
    assert line["client"] == f"uid {os.getuid()} pid {os.getpid()}"


async def test_a_flood_of_connections_does_not_keep_a_probe_away(room):
    """A new connection closes the oldest one, so a kubelet is answered and descriptors stay few."""
    where = address(room.admin.listen)
    idle = [await trio.open_tcp_stream(*where) for _ in range(3 * MAX_ADMIN_CONNECTIONS)]
    await trio.sleep(0.1)
    async with room.http("listen") as http:
        assert (await http.get("/live")).status_code == 200
    with trio.fail_after(60):
        assert await idle[0].receive_some() == b""
    for stream in idle:
        await stream.aclose()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /live HTTP/1.1\r\n\r\n",
        b"GET " + b"x" * 70_000 + b" HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\xff\xff\xff\xff\xff\xff",
        b"GET /live HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nHTTP2-Settings: !!\r\nConnection: Upgrade\r\n\r\n",
        b"GET /live HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /v1/drain HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/drain HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /%ff%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
    ids=lambda data: data[:24].decode("ascii", "replace"),
)
async def test_bytes_that_are_not_a_request_do_not_disturb_other_clients(room, data):
    """Their connection is answered or closed; the next request is served."""
    for way in ("listen", "control"):
        stream = await trio.open_tcp_stream(*address(getattr(room.admin, way)))
        async with stream:
            await stream.send_all(data)
            with trio.move_on_after(0.2):
                await stream.receive_some()
    async with room.http("listen") as http:
        assert (await http.get("/live")).status_code == 200


BAD_CHUNKS = [
    b"zz\r\n",
    b"5\r\nabcdefgh\r\n",
    b"ffffffffffffffffffffffffff\r\n",
    b"-1\r\n\r\n",
]


@pytest.mark.parametrize("with_token", [True, False])
async def test_malformed_chunks_are_logged_rarely_and_without_a_traceback(room, capsys, with_token):
    """Hypercorn would log a traceback for each; the next request is served."""
    log.configure("info", "json", lambda: 0)
    loaded_ms = room.service.reloaded_ms
    head = (
        "POST /v1/reload HTTP/1.1",
        f"host: {room.admin.control}",
        f"authorization: Bearer {TOKEN if with_token else 'wrong'}",
        "content-type: application/json",
        "transfer-encoding: chunked",
    )
    for number in range(100):
        stream = await trio.open_tcp_stream(*address(room.admin.control))
        async with stream:
            await stream.send_all("\r\n".join((*head, "", "")).encode())
            if number % 2:  # the bad chunk comes alone, once the handler waits for it
                await trio.testing.wait_all_tasks_blocked()
            await stream.send_all(BAD_CHUNKS[number % len(BAD_CHUNKS)])
            with trio.move_on_after(5), suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass
    async with room.http("control") as http:
        assert (await http.get("/v1/state")).status_code == 200
    text = capsys.readouterr().err
    assert "Traceback" not in text
    assert (
        len(text.splitlines()) <= LIMITS["admin_refused"].lines + LIMITS["admin_bad_request"].lines
    )
    assert room.service.reloaded_ms == loaded_ms, "half a request is none"
    structlog.reset_defaults()


def test_only_a_callers_faults_are_logged_without_a_traceback(capsys):
    """A group with one fault of Sluice's own is logged with all its tracebacks."""
    log.configure("info", "json", lambda: 0)
    callers = [
        ExceptionGroup("one", [ExceptionGroup("two", [h11.LocalProtocolError("their state")])]),
        BrokenPipeError(32, "gone"),
    ]
    ours = [
        ExceptionGroup("both", [h11.LocalProtocolError("x"), ZeroDivisionError()]),
        PermissionError(13, "the token file"),
        ZeroDivisionError(),
    ]
    for fault in callers:
        log_fault(fault)
        (line,) = map(json.loads, capsys.readouterr().err.splitlines())
        assert line["event"] == "admin_bad_request"
        assert "exception" not in line
        log.configure("info", "json", lambda: 0)
    for fault in ours:
        log_fault(fault)
        (line,) = map(json.loads, capsys.readouterr().err.splitlines())
        assert line["event"] == "admin_error"
        assert type(fault).__name__ in line["exception"]
        log.configure("info", "json", lambda: 0)
    structlog.reset_defaults()


async def test_a_viewer_that_does_not_read_does_not_delay_the_shutdown(tmp_path):
    """Hypercorn sends inside a cancellation shield; the server does not wait for it."""
    async with opened(tmp_path) as room:
        stream = await trio.open_unix_socket(room.admin.socket)
        asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        await stream.send_all(asked * 2000)  # more answers than the kernel keeps
        await trio.sleep(0.3)
        path = (
            room.admin.socket
        )  # the end comes although nothing was read; else this would last for ever
    assert not there(path)
    await stream.aclose()


async def test_a_fault_in_a_handler_is_logged_and_answered_with_500(room, monkeypatch):
    """The log has the traceback; the next request is served."""
    monkeypatch.setattr(type(room.service), "readiness", lambda _: 1 / 0)
    with structlog.testing.capture_logs() as lines:
        async with room.http("listen") as http:
            answer = await http.get("/ready")
            assert answer.status_code == 500
            assert answer.json() == {"error": "internal error: see the log"}
            assert (await http.get("/live")).status_code == 200
    assert [line["event"] for line in lines] == ["admin_error"]


async def test_the_server_binds_all_its_listeners_or_none(tmp_path):
    """A port in use ends the start with an error that names it and leaves no socket file."""
    port = free_ports()
    path = str(tmp_path / "s")
    admin = AdminSettings(
        socket=path, control=f"127.0.0.1:{port}", token_file=str(tmp_path / "none")
    )
    room = AdminRoom(config_of(admin=admin))
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match=r"admin\.control"):
        await serve(admin, room.service, LoopLag())
    with pytest.raises(FileNotFoundError):
        await serve(admin, room.service, LoopLag())
    assert not there(path)
    room.close()
