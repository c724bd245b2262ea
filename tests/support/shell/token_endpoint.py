"""An HTTPS endpoint that gives tokens for client credentials (RFC 6749, section 4.4)."""

import json
import ssl
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs

from tests.support.messages.sasl import unsigned_token
from tests.support.shell.certificates import Pair


class TokenEndpoint:
    """Gives unsigned tokens of `subject` that live `lives_seconds`, to one client only.

    A refusal repeats the credentials. `asked` counts requests, `given` has the tokens.
    """

    def __init__(
        self, pair: Pair, subject: str, client: tuple[str, str], lives_seconds: int
    ) -> None:
        endpoint = self
        basic = f"Basic {b64encode(':'.join(client).encode()).decode()}"

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.asked += 1
                endpoint.scopes |= set(form.get("scope", []))
                known = self.headers["Authorization"] == basic
                known = known and form["grant_type"] == ["client_credentials"]
                token = unsigned_token(subject, lives_seconds)
                answer = {
                    "access_token": token,
                    "token_type": "Bearer",
                    "expires_in": lives_seconds,
                }
                refusal = {
                    "error": "invalid_client",
                    "error_description": self.headers["Authorization"],
                }
                body = json.dumps(answer if known else refusal).encode()
                endpoint.given += [token] * known
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Write nothing."""

        self.asked = 0
        self.given: list[str] = []
        self.scopes: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert_file, pair.key_file)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Return its address."""
        return f"https://127.0.0.1:{self._server.server_port}/oauth2/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
