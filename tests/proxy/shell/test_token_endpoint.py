"""Tokens from an endpoint, which may be slow, wrong or hostile."""

import json
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest
import trio

from proxy.config.small_files import FileError
from proxy.core.auth.secret_text import Secret
from proxy.shell import token_endpoint, tokens
from proxy.shell.token_endpoint import MAX_ANSWER_BYTES, SETTING, TokenEndpoint
from proxy.shell.tokens import FetchedTokens, TokenError

CANARY = "canary-of-the-client-secret"


class Endpoint:
    """An OAuth endpoint on loopback. `answer` is (status, body); `headers` are further ones."""

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] = (200, b"{}")
        self.headers: dict[str, str] = {}
        self.pause_s = 0.0
        self.asked: list[tuple[dict[str, str], dict[str, list[str]]]] = []
        self.at_once = self.most_at_once = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.at_once += 1
                endpoint.most_at_once = max(endpoint.most_at_once, endpoint.at_once)
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((dict(self.headers), parse_qs(form)))
                threading.Event().wait(endpoint.pause_s)
                status, body = endpoint.answer
                self.send_response(status)
                for name, value in endpoint.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                endpoint.at_once -= 1
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"

    def gives(self, token: str, **more: object) -> None:
        """Answer with this token from now on."""
        self.answer = (200, json.dumps({"access_token": token, **more}).encode())


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Return an endpoint that runs. No time runs out on a busy machine; tests of a timeout set their own."""
    monkeypatch.setattr(token_endpoint, "TIMEOUT_S", 600.0)
    monkeypatch.setattr(tokens, "TOTAL_TIMEOUT_S", 600.0)
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def source(endpoint: Endpoint, scope: str = "") -> FetchedTokens:
    """Return the source under test."""
    return tokens_of(TokenEndpoint(endpoint.url, "sluice", lambda: Secret(CANARY), scope))


def tokens_of(endpoint: TokenEndpoint) -> FetchedTokens:
    """Return the tokens as connections use them."""
    return FetchedTokens(SETTING, endpoint.fetch)


def jwt(claims: object) -> str:
    """Return an unsigned token."""
    middle = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{middle}.c2ln"


async def test_an_endpoint_gives_a_token_for_client_credentials(endpoint: Endpoint) -> None:
    """The request is that of RFC 6749 section 4.4, with the scope, and the secret in the header only."""
    endpoint.gives("a.b.c", expires_in=3600)
    assert (await source(endpoint, "kafka read").token()).reveal() == "a.b.c"
    headers, form = endpoint.asked[0]
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    basic = b64encode(f"sluice:{CANARY}".encode()).decode()
    assert headers["Authorization"] == f"Basic {basic}"


async def test_many_connections_share_one_request_and_a_refused_token_is_forgotten(
    endpoint: Endpoint,
) -> None:
    """One request is under way at a time; a refused token is not used again, though it has not expired."""
    endpoint.gives("a.b.c", expires_in=3600)
    endpoint.pause_s = 0.05
    shared = source(endpoint)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(shared.token)
    assert len(endpoint.asked) == 1

    endpoint.gives("a.b.c", expires_in=3600)
    shared = source(endpoint)
    await shared.token()
    endpoint.gives("d.e.f", expires_in=3600)
    assert (await shared.token()).reveal() == "a.b.c"
    shared.forget()
    assert (await shared.token()).reveal() == "d.e.f"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"error":"invalid_client"}', r"HTTP status 401 \(invalid_client\)$"),
        (400, b'{"error":"canary-of-the-client-secret"}', "HTTP status 400$"),
        (500, b"oops canary-of-the-client-secret", "HTTP status 500$"),
        (302, b"", "HTTP status 302$"),
        (200, b"", "no access_token"),
        (200, b"[" * 100_000, "no access_token"),
        (200, b'{"access_token":7}', "no access_token"),
        (200, b'{"access_token":"two words"}', "no access_token"),
        (200, b'{"access_token":""}', "no access_token"),
        (200, b" " * (MAX_ANSWER_BYTES + 1), "more than"),
    ],
)
async def test_a_wrong_answer_is_an_error_without_secrets(
    endpoint: Endpoint, status: int, body: bytes, words: str
) -> None:
    """Redirects are not followed, the size is bounded, and no word of the answer is repeated."""
    endpoint.answer = (status, body)
    endpoint.headers = {"Location": endpoint.url}
    with pytest.raises(TokenError, match=words) as caught:
        await source(endpoint).token()
    assert CANARY not in str(caught.value)
    assert len(endpoint.asked) == 1


LIFETIMES = (
    *(b"0", b"-1", b"-1e300", b"NaN", b"Infinity", b"-Infinity", b"1e300", b"1e9999"),
    *(b"315360001", b"9" * 400, b"9" * 5000),
)


@pytest.mark.parametrize("lifetime", LIFETIMES)
async def test_a_lifetime_that_cannot_be_is_refused_and_asked_for_later(
    endpoint: Endpoint, lifetime: bytes
) -> None:
    """Connections meanwhile do not ask again: each would, if the token were taken for one that has ended."""
    endpoint.answer = (200, b'{"access_token":"a.b.c","expires_in":' + lifetime + b"}")
    shared = source(endpoint)
    for _ in range(20):
        with pytest.raises(TokenError, match="token_endpoint_url: ") as caught:
            await shared.token()
    assert "a.b.c" not in str(caught.value)
    assert len(endpoint.asked) == 1


async def test_a_fault_of_ours_is_asked_for_later_too(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any failure counts for the pause."""
    asked = []

    def stumble(self: TokenEndpoint) -> None:
        asked.append(self)
        raise LookupError(CANARY)

    monkeypatch.setattr(TokenEndpoint, "fetch", stumble)
    shared = source(endpoint)
    with pytest.raises(LookupError):
        await shared.token()
    with pytest.raises(TokenError, match="LookupError") as caught:
        await shared.token()
    assert CANARY not in str(caught.value)
    assert len(asked) == 1


async def test_a_compressed_answer_is_bounded_by_what_it_contains(endpoint: Endpoint) -> None:
    """A few kilobytes that would be 16 MiB are refused, and never unpacked as a whole."""
    import gzip  # noqa: PLC0415 - for this test only

    endpoint.answer = (200, gzip.compress(bytes(16 << 20)))
    endpoint.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(TokenError, match="more than"):
        await source(endpoint).token()


async def test_an_endpoint_without_a_secret_or_an_answer_is_an_error(endpoint: Endpoint) -> None:
    """The error names the kind of failure; without a secret the endpoint is not asked."""
    unreachable = TokenEndpoint("http://127.0.0.1:1/token", "sluice", lambda: Secret(CANARY))
    with pytest.raises(TokenError, match="ConnectionError"):
        await tokens_of(unreachable).token()

    def missing() -> Secret:
        raise FileError("nothing", "a file")

    with pytest.raises(TokenError, match="client_secret_file"):
        await tokens_of(TokenEndpoint(endpoint.url, "sluice", missing)).token()
    assert endpoint.asked == []


async def test_an_endpoint_that_does_not_answer_costs_a_bounded_time(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt ends, although the thread may still wait."""
    monkeypatch.setattr(tokens, "TOTAL_TIMEOUT_S", 0.1)
    endpoint.pause_s = 1.0
    with pytest.raises(TokenError, match=r"no answer within 0\.1 s"):
        await source(endpoint).token()


async def test_the_time_that_is_told_counts_for_a_day_at_most_or_else_the_hint() -> None:
    """Fractions and years too. A token that seems to have ended serves all connections for a second."""
    now_s = time.time()
    for told, expiry, lowest_s, highest_s in (
        (1, now_s - 5, 1, 1),
        (1.5, None, 1.5, 1.5),
        (86_401, None, 86_400, 86_400),
        (315_360_000, None, 86_400, 86_400),
        (None, now_s - 5, token_endpoint.MIN_USED_S, token_endpoint.MIN_USED_S),
        (None, now_s + 1000, 900, 1000),
        (None, now_s + 1e6, tokens.MAX_USED_S, tokens.MAX_USED_S),
        (None, None, token_endpoint.USUAL_LIFETIME_S, token_endpoint.USUAL_LIFETIME_S),
    ):
        answer = {"access_token": jwt({"exp": expiry})} | ({"expires_in": told} if told else {})
        lifetime_s = token_endpoint._read_answer(200, json.dumps(answer).encode()).lifetime_s
        assert lowest_s <= lifetime_s <= highest_s
