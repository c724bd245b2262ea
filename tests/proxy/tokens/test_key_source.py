"""Keys from a file and from an address, which may be slow, large, wrong or hostile."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from proxy.config.small_files import FileError
from proxy.tokens import key_source
from proxy.tokens.key_set import MAX_BYTES, KeySetError
from proxy.tokens.key_source import read_keys
from tests.support.shell.certificates import Authority
from tests.support.shell.token_issuer import IdentityProvider, jwks

CANARY = "canary-of-the-provider"


def test_a_file_is_read_whole_and_is_bounded(tmp_path: Path) -> None:
    """What is no file, or too large, is named."""
    file = tmp_path / "keys.json"
    file.write_bytes(jwks("ES256"))
    assert read_keys(str(file)) == jwks("ES256")
    file.write_bytes(b"x" * (MAX_BYTES + 1))
    for path in (file, tmp_path, tmp_path / "gone"):
        with pytest.raises(FileError, match=path.name):
            read_keys(str(path))


def test_an_address_is_asked(tmp_path: Path) -> None:
    """By TLS with an authority of its own, and with a token that it asks for."""
    authority = Authority(tmp_path)
    with IdentityProvider("ES256", pair=authority.issue("127.0.0.1")) as provider:
        url, ca = provider.url("/keys"), str(authority.ca_file)
        assert read_keys(url, ca) == jwks("ES256")
        with pytest.raises(KeySetError, match="SSLError"):
            read_keys(url)
        provider.bearer = CANARY
        with pytest.raises(KeySetError, match="HTTP status 401"):
            read_keys(url, ca)
        token = tmp_path / "token"
        token.write_text(f"{CANARY}\n")
        assert read_keys(url, ca, str(token)) == jwks("ES256")
        token.unlink()
        with pytest.raises(KeySetError, match="jwks_token_file"):
            read_keys(url, ca, str(token))
        provider.status = 500
        token.write_text(CANARY)
        with pytest.raises(KeySetError, match="HTTP status 500"):
            read_keys(url, ca, str(token))


class Hostile:
    """A server whose answer is `head` and `body`, sent piece by piece with a pause."""

    def __init__(self) -> None:
        self.status, self.headers, self.pieces, self.pause_s = 200, {}, [b"{}"], 0.0
        self.asked = 0
        hostile = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hostile.asked += 1
                self.send_response(hostile.status)
                for name, value in hostile.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in hostile.pieces:
                    threading.Event().wait(hostile.pause_s)
                    try:
                        self.wfile.write(piece)
                    except OSError:
                        return

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/{CANARY}"


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    made = Hostile()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join(10)


def why(hostile: Hostile) -> str:
    with pytest.raises(KeySetError) as caught:
        read_keys(hostile.url)
    assert CANARY not in str(caught.value)
    return str(caught.value)


def test_a_redirect_is_not_followed(hostile: Hostile) -> None:
    """It may lead to an address inside, or to one without TLS."""
    hostile.status, hostile.headers = 302, {"Location": hostile.url}
    assert why(hostile) == "HTTP status 302"
    assert hostile.asked == 1


def test_an_answer_is_bounded_in_size(hostile: Hostile) -> None:
    """Whatever length it announces."""
    hostile.pieces = [b"x" * 65_536] * (MAX_BYTES // 65_536 + 1)
    assert why(hostile) == f"an answer of more than {MAX_BYTES} bytes"
    hostile.headers = {"Content-Length": "10"}
    hostile.pieces = [b"x" * 5]
    assert why(hostile) == "ProtocolError"


def test_an_answer_is_bounded_in_time(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that trickles is noticed, and so is one that never comes."""
    monkeypatch.setattr(key_source, "TOTAL_TIMEOUT_S", 0.3)
    monkeypatch.setattr(key_source, "TIMEOUT_S", 60)
    hostile.pieces, hostile.pause_s = [b"x"] * 10_000, 0.05
    assert why(hostile) == "the answer is too slow"
    monkeypatch.setattr(key_source, "TIMEOUT_S", 0.2)
    hostile.pause_s = 1.0
    assert "Timeout" in why(hostile) or "ConnectionError" in why(hostile)


def test_nobody_answers() -> None:
    """The text has no address."""
    with pytest.raises(KeySetError) as caught:
        read_keys("http://127.0.0.1:1/keys")
    assert str(caught.value) == "ConnectionError"
