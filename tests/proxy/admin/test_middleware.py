"""The middleware of the admin server: hosts, origins, tokens, content types, sizes, times, rates."""

import pytest
import structlog
import trio
from starlette.responses import Response

from proxy.admin import middleware
from proxy.admin.change_log import ChangeLog
from proxy.admin.middleware import (
    CHANGES_AT_ONCE,
    HEADERS,
    LOCAL,
    MAX_BODY_BYTES,
    AdminMiddleware,
)
from proxy.admin.token import Token
from tests.support.processes.asgi import ask

TOKEN = "a-token-of-some-length"  # noqa: S105 - a test's own
BEARER = {"authorization": f"Bearer {TOKEN}"}
JSON = {"content_type": "application/json"}


@pytest.fixture
def logged():
    """Return the lines of the log."""
    with structlog.testing.capture_logs() as lines:
        yield lines


async def echo(scope, receive, send):
    """Answer with the request that passed the middleware."""
    message = await receive()
    await Response(message.get("body", b""))(scope, receive, send)


def guarded(app=echo, *, token=None, hosts=LOCAL) -> AdminMiddleware:
    return AdminMiddleware(app, ChangeLog("control"), token=token, hosts=hosts)


@pytest.fixture
def with_token(tmp_path) -> AdminMiddleware:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return guarded(token=Token(str(file)))


@pytest.mark.parametrize(
    "path", ["/startup", "/live", "/ready", "/metrics", "/version", "/", "/static/app.js"]
)
async def test_open_paths_need_no_token(with_token, path):
    """A browser cannot send one for a page, nor a kubelet for a probe."""
    assert (await ask(with_token, path)).status == 200


@pytest.mark.parametrize(
    "path", ["/v1/state", "/v1/events", "/openapi.json", "/static", "//", "/Metrics", "/live/"]
)
async def test_every_other_path_needs_the_token(with_token, path):
    """A path is open only if it is named exactly."""
    refused = await ask(with_token, path)
    assert refused.status == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert (await ask(with_token, path, **BEARER)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_every_change_needs_the_token(with_token, logged, method):
    """Requests that change something need the token on open paths too."""
    for path in ("/", "/metrics", "/static/app.js", "/v1/drain"):
        assert (await ask(with_token, path, method, **JSON)).status == 401


@pytest.mark.parametrize("presented", ["", "Bearer", f"Bearer {TOKEN}x", "Bearer \xff"])
async def test_a_request_with_a_wrong_token_is_refused(with_token, presented):
    """Malformed headers are refused like wrong tokens."""
    assert (await ask(with_token, authorization=presented)).status == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:9644")),
        *((host, 200) for host in ("[::1]:9644", "[::1]")),
        ("sluice.internal", 403),
        ("attacker.example", 403),
        ("localhost.attacker.example", 403),
        ("localhost:9644.attacker.example", 403),
        ("", 403),
    ],
)
async def test_only_requests_for_a_configured_host_are_answered(host, status):
    """Under DNS rebinding a page of another site gets 403 from open paths too."""
    for path in ("/v1/state", "/", "/metrics"):
        assert (await ask(guarded(), path, host=host)).status == status


async def test_an_open_listener_answers_for_every_host():
    """A kubelet asks by the pod's address."""
    assert (await ask(guarded(hosts=None), "/live", host="10.1.2.3:9644")).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost"}, 200),
        ({"origin": "https://localhost"}, 200),
        ({"origin": "http://localhost:1"}, 403),
        ({"origin": "http://attacker.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
    ],
)
async def test_a_browsers_request_from_another_site_is_refused(logged, headers, status):
    """Both reads and changes are refused."""
    assert (await ask(guarded(), **headers)).status == status
    assert (await ask(guarded(), "/v1/drain", "POST", **JSON, **headers)).status == status


async def test_a_link_on_another_site_may_open_the_page():
    """The page itself contains no secret."""
    assert (await ask(guarded(), "/", sec_fetch_site="cross-site")).status == 200


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonx", 415),
        ("text/plain; application/json", 415),
    ],
)
async def test_a_change_must_have_the_content_type_of_json(logged, kind, status):
    """A form on another site cannot send that content type."""
    assert (await ask(guarded(), "/v1/drain", "POST", content_type=kind)).status == status


async def test_a_body_is_bounded_with_and_without_a_content_length(logged):
    """The bound is 64 KiB, in one part or in many."""
    app = guarded()
    fits, over = b"x" * MAX_BODY_BYTES, b"x" * (MAX_BODY_BYTES + 1)
    assert (await ask(app, "/v1/drain", "POST", fits, **JSON)).body == fits
    assert (await ask(app, "/v1/drain", "POST", over, **JSON)).status == 413
    assert (await ask(app, "/v1/drain", "POST", [b"x" * 40_000] * 2, **JSON)).status == 413
    said = {"content_length": str(MAX_BODY_BYTES + 1)}
    assert (await ask(app, "/v1/drain", "POST", **JSON, **said)).status == 413
    assert (await ask(app, "/v1/drain", "POST", content_length="-1", **JSON)).status == 413


async def test_a_body_must_arrive_within_five_seconds(autojump_clock, logged):
    """A request whose body is late is refused."""
    assert (await ask(guarded(), "/v1/drain", "POST", [], **JSON)).status == 408
    assert trio.current_time() == pytest.approx(middleware.TIMEOUT_S)


async def test_a_handler_that_hangs_is_cancelled(autojump_clock):
    """Its caller gets an error; other requests are not affected."""

    async def hang(scope, receive, send):
        await trio.sleep_forever()

    assert (await ask(guarded(hang), "/v1/state")).status == 503


async def test_changes_are_limited_in_rate(autojump_clock, logged):
    """A burst passes, then a fixed number a second; reads are not limited."""
    app = guarded()
    statuses = [
        (await ask(app, "/v1/drain", "POST", **JSON)).status for _ in range(CHANGES_AT_ONCE + 3)
    ]
    assert statuses == [200] * CHANGES_AT_ONCE + [429] * 3
    assert (await ask(app)).status == 200
    await trio.sleep(0.5)
    statuses = [(await ask(app, "/v1/drain", "POST", **JSON)).status for _ in range(7)]
    assert statuses == [200] * 5 + [429] * 2


async def test_every_answer_has_the_common_headers():
    """Errors have them too; a header that the handler sets is kept."""

    async def styled(scope, receive, send):
        await Response(headers={"cache-control": "no-cache"})(scope, receive, send)

    for answer in (await ask(guarded()), await ask(guarded(), host="x")):
        for name, value in HEADERS:
            assert answer.headers[name.decode()] == value.decode()
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert (await ask(guarded(styled))).headers["cache-control"] == "no-cache"


async def test_a_change_is_logged_and_a_read_is_not(logged):
    """The line has the caller, the request and its status, also of a refused change."""
    await ask(guarded(), "/v1/state")
    assert logged == []
    await ask(guarded(), "/v1/drain", "POST", b'{"password": "hunter2"}', **JSON)
    await ask(guarded(), "/v1/drain", "POST", host="x")
    assert [(line["event"], line["status"]) for line in logged] == [
        ("admin_change", 200),
        ("admin_refused", 403),
    ]
    assert logged[0]["path"] == "/v1/drain"
    assert logged[0]["client"] == "10.0.0.9:40000"
    assert "hunter2" not in str(logged)


async def test_websockets_are_declined():
    """The admin server has none."""
    sent = []

    async def send(message):
        sent.append(message)

    await guarded()({"type": "websocket"}, trio.sleep_forever, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
