"""Both plug-ins get their tokens from the services of their clouds, which these tests play."""

import json
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from azure_tokens import AzureTokens, AzureTokensConfig
from google_tokens import GoogleTokens, GoogleTokensConfig

GIVEN = "the-access-token"
ACCOUNT = "billing@project.iam.gserviceaccount.com"


class Cloud:
    """The service of a machine that gives tokens to its programs."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cloud.asked.append(self.path)
                answer = {
                    "access_token": GIVEN,
                    "expires_in": 3600,
                    "expires_on": int(time.time()) + 3600,
                    "token_type": "Bearer",
                    "email": ACCOUNT,
                    "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
                }
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Metadata-Flavor", "Google")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Write nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """Return a service that runs."""
    made = Cloud()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_azure(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a managed identity, for the namespace."""
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{cloud.address}/token")
    monkeypatch.setenv("IDENTITY_HEADER", "header")
    found = AzureTokens(AzureTokensConfig("billing")).token()
    assert found.token == GIVEN
    assert 3500 < found.lifetime_s <= 3600
    assert "resource=https://billing.servicebus.windows.net" in cloud.asked[-1]


def test_google(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the service account of the machine, in the form that its brokers want."""
    monkeypatch.setenv("GCE_METADATA_HOST", cloud.address)
    monkeypatch.setenv("GCE_METADATA_IP", cloud.address)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "project")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    found = GoogleTokens(GoogleTokensConfig(ACCOUNT)).token()
    header, claims, token = (
        urlsafe_b64decode(each + "=" * (-len(each) % 4)) for each in found.token.split(".")
    )
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    told = json.loads(claims)
    assert (told["sub"], told["scope"], told["iss"]) == (ACCOUNT, "kafka", "Google")
    assert told["exp"] - told["iat"] == pytest.approx(found.lifetime_s)
    assert 3500 < found.lifetime_s <= 3600
    assert token.decode() == GIVEN
