"""An identity provider: it signs tokens with keys that it publishes, and gives them for client credentials."""

import json
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.support.shell.certificates import Pair

ISSUER: Final = "https://idp.test"
AUDIENCE: Final = "kafka"
LIVES_SECONDS: Final = 300


_making = threading.Lock()


def private_key(kid: str) -> Any:
    """A key by its id, which begins with its algorithm: `RS256-1`, `ES384`, `EdDSA-old`. Made once in a test run."""
    with _making:
        return _made_key(kid)


@cache
def _made_key(kid: str) -> Any:
    algorithm = kid.partition("-")[0]
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    if algorithm in curves:
        return ec.generate_private_key(curves[algorithm])
    return rsa.generate_private_key(65537, 1024 if kid.endswith("short") else 2048)


def public_jwk(kid: str, /, **members: object) -> dict[str, Any]:
    """Return a public key as a member of a set; `members` are added, or left out if they are None."""
    key = private_key(kid).public_key()
    reader = {"E": ECAlgorithm, "R": RSAAlgorithm, "P": RSAAlgorithm}
    kind = OKPAlgorithm if kid.startswith("EdDSA") else reader[kid[0]]
    found = {**kind.to_jwk(key, as_dict=True), "kid": kid, "use": "sig", **members}
    if "key_ops" not in members:
        found.pop("key_ops", None)
    return {name: value for name, value in found.items() if value is not None}


def jwks(*kids: str) -> bytes:
    """Return a set of these keys."""
    return json.dumps({"keys": [public_jwk(kid) for kid in kids]}).encode()


def claims_of(user: str = "alice", **claims: object) -> dict[str, Any]:
    """Return claims that hold now; those that are None are left out."""
    now = int(time.time())
    found = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "iat": now,
        "exp": now + LIVES_SECONDS,
        **claims,
    }
    return {name: value for name, value in found.items() if value is not None}


def signed(kid: str = "RS256", headers: dict[str, object] | None = None, **claims: object) -> bytes:
    """Return a token signed by this key. Members of the header that are None are left out."""
    user = str(claims.pop("user", "alice"))
    header = {"kid": kid, **(headers or {})}
    kept = {name: value for name, value in header.items() if value is not None}
    body = claims_of(user, **claims)
    return jwt.encode(body, private_key(kid), kid.partition("-")[0], headers=kept).encode()


def part(content: object) -> bytes:
    """Return a part of a token: base64 of JSON, or of bytes as they are."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(text).rstrip(b"=")


class IdentityProvider:
    """Serves the keys `kids` at `/keys`, and at `/token` tokens for client credentials: the client's id is the user.

    `asked` counts requests by path. `claims` are added to each token, which lives `lives_seconds`. With `status` other
    than 200 it is out of order. With `bearer` the keys need this token.
    """

    def __init__(self, *kids: str, pair: Pair | None = None) -> None:
        self.kids = list(kids or ("RS256",))
        self.claims: dict[str, object] = {}
        self.lives_seconds = LIVES_SECONDS
        self.status = 200
        self.bearer = ""
        self.asked: dict[str, int] = {}
        self.given: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.headers["Authorization"] == f"Bearer {provider.bearer}"
                self._answer(jwks(*provider.kids), is_known=known or not provider.bearer)

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                basic = self.headers["Authorization"].partition(" ")[2]
                user = b64decode(basic).decode().partition(":")[0]
                token = provider.token(user)
                answer = {
                    "access_token": token,
                    "token_type": "Bearer",
                    "expires_in": provider.lives_seconds,
                }
                known = form.get("grant_type") == ["client_credentials"]
                self._answer(json.dumps(answer).encode(), is_known=known)

            def _answer(self, body: bytes, *, is_known: bool) -> None:
                provider.asked[self.path] = provider.asked.get(self.path, 0) + 1
                self.send_response(provider.status if is_known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Write nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.cert_file, pair.key_file)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def token(self, user: str, **claims: object) -> str:
        """Return a token of this user, signed by the newest key."""
        expires = {"exp": int(time.time()) + self.lives_seconds}
        found = signed(self.kids[-1], user=user, **{**self.claims, **expires, **claims}).decode()
        self.given.append(found)
        return found

    def url(self, path: str) -> str:
        """Return the address of a path, `/keys` or `/token`."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}{path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
