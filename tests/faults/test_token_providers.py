"""A real Sluice whose tokens come from a plug-in: one that works, those that do not, and that of MSK IAM.

The broker of MSK verifies each signature itself.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from bench.harness import BenchError
from tests.support.faults.stub_broker import StubBroker, body_of
from tests.support.kafka.load import await_that
from tests.support.messages import frames, sasl
from tests.support.plugins import token_maker
from tests.support.plugins.token_maker import CANARY, USE
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.sigv4 import AwsKey, RefusedTokenError, verified

LONGEST_S = 120
REGION = "eu-west-1"
ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ROLE_ID, ROLE_SECRET, ROLE_TOKEN = "ASIAROLE", "secret-of-the-role", "session/token+of=the=role"
POD_TOKEN = "canary.of.the-pod"  # noqa: S105 - made up


class Broker:
    """A broker that accepts the tokens that `judge` does not refuse; its `answer` is for a StubBroker."""

    def __init__(self, judge: Callable[[str], None], lifetime_ms: int = 0) -> None:
        self._judge = judge
        self._lifetime_ms = lifetime_ms
        self.shown: list[str] = []
        self.refused = 0
        self.stub = StubBroker(self.answer)

    def answer(self, request: bytes) -> bytes | None:
        key, _, ident = struct.unpack_from(">hhi", request, 4)
        if key == frames.SASL_HANDSHAKE:
            names = struct.pack(">hi", 0, 1) + frames.string("OAUTHBEARER")
            return frames.reply(ident, names)
        if key != frames.SASL_AUTHENTICATE:
            return self.stub.usual(request)
        message = body_of(request)[4:].decode()
        token = message.removeprefix("n,,\x01auth=Bearer ").removesuffix("\x01\x01")
        self.shown.append(token)
        try:
            self._judge(token)
        except RefusedTokenError:
            self.refused += 1
            return sasl.authenticate_reply(ident, error_code=sasl.FAILED)
        body = sasl.authenticate_body(b"", lifetime_ms=self._lifetime_ms)
        return frames.reply(ident, body)


def is_served(port: int) -> bool:
    """Return whether a new client's request reaches the broker and is answered."""
    with socket.create_connection(("127.0.0.1", port), LONGEST_S) as client:
        return asks(client, 1)


def asks(client: socket.socket, ident: int) -> bool:
    """Return whether a request on this connection is answered."""
    with suppress(ConnectionError):
        client.sendall(frames.heartbeat(ident))
        return bool(client.recv(65536))
    return False


def custody(**options: object) -> dict[str, object]:
    """Return the settings of a Sluice that uses the plug-in of the tests."""
    sasl_settings = {"mechanism": "OAUTHBEARER", "token_provider": USE, "token_options": options}
    return {"upstream_settings": {"sasl": sasl_settings}, "variables": token_maker.variables()}


@pytest.mark.parametrize("does", ["raises", "exits", "lies"])
def test_a_plug_in_that_fails_costs_its_clients_and_no_more(
    start: Callable[..., SluiceProcess], tmp_path: Path, does: str
) -> None:
    """Its name and the kind of failure are in the log, without a secret; when it works again, so does Sluice."""
    broker, file = Broker(lambda _: None), tmp_path / "calls"
    with broker.stub:
        sluice = start(broker.stub.server, **custody(file=str(file), does=[does, "gives"]))
        assert not is_served(sluice.port)
        await_that(lambda: is_served(sluice.port), "a client that is served")
        said = sluice.said()

    assert f"token_provider: {USE}" in said
    assert {"raises": "PermissionError", "exits": "SystemExit", "lies": "lifetime"}[does] in said
    assert CANARY not in said
    assert token_maker.calls(file) == 2  # the pause after a failure held
    assert broker.refused == 0


def test_a_plug_in_that_blocks_for_ever_delays_no_end_of_the_process(
    start: Callable[..., SluiceProcess], tmp_path: Path
) -> None:
    """Clients without a token wait, and the exit code is 0."""
    broker, file = Broker(lambda _: None), tmp_path / "calls"
    with broker.stub:
        settings = {"drain": {"timeout_ms": 500}}
        sluice = start(
            broker.stub.server, settings=settings, **custody(file=str(file), does=["blocks"])
        )
        with socket.create_connection(("127.0.0.1", sluice.port), LONGEST_S) as client:
            client.sendall(frames.heartbeat(1))
            await_that(lambda: token_maker.calls(file) == 1, "the call of the plug-in")
            began = time.monotonic()
            sluice.stop()
            assert time.monotonic() - began < LONGEST_S
    assert broker.shown == []


def test_tokens_are_renewed_before_they_end(
    start: Callable[..., SluiceProcess], tmp_path: Path
) -> None:
    """A live connection shows the broker a new token at each authentication, and serves its client all the time."""
    broker, file = Broker(lambda _: None, lifetime_ms=2_000), tmp_path / "calls"
    with broker.stub:
        sluice = start(broker.stub.server, **custody(file=str(file), lifetime_s=3))
        with socket.create_connection(("127.0.0.1", sluice.port), LONGEST_S) as client:
            ident = 0

            def has_renewed() -> bool:
                nonlocal ident
                ident += 1
                assert asks(client, ident)
                return len(set(broker.shown)) >= 3

            await_that(has_renewed, "three tokens")
        assert broker.stub.connected <= 2  # the client's, and that of Sluice's own questions


class Sts:
    """AWS's service that gives the keys of a role for a pod's token."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        sts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                sts.asked.append(parse_qs(form))
                body = (
                    '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
                    "<AssumeRoleWithWebIdentityResult><Credentials>"
                    f"<AccessKeyId>{ROLE_ID}</AccessKeyId>"
                    f"<SecretAccessKey>{ROLE_SECRET}</SecretAccessKey>"
                    f"<SessionToken>{ROLE_TOKEN}</SessionToken>"
                    "<Expiration>2099-01-01T00:00:00Z</Expiration>"
                    "</Credentials></AssumeRoleWithWebIdentityResult>"
                    "</AssumeRoleWithWebIdentityResponse>"
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def sts() -> Iterator[Sts]:
    made = Sts()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def msk(secret: str) -> Broker:
    """Return a broker that knows the key of the environment, and that of the role."""
    keys = {ID: AwsKey(secret), ROLE_ID: AwsKey(ROLE_SECRET, ROLE_TOKEN)}

    def judge(token: str) -> None:
        verified(token, keys, REGION)

    return Broker(judge)


MSK = {
    "sasl": {
        "mechanism": "OAUTHBEARER",
        "token_provider": "aws-msk-iam",
        "token_options": {"region": REGION},
    }
}
ALONE = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET, **ALONE}


def test_msk_accepts_what_is_signed_by_the_right_key(start: Callable[..., SluiceProcess]) -> None:
    """One token serves all connections; with a wrong key every client is closed, and the log has no secret."""
    right, wrong = msk(SECRET), msk("another")
    with right.stub, wrong.stub:
        sluice = start(right.stub.server, upstream_settings=MSK, variables=KEYS)
        assert all(is_served(sluice.port) for _ in range(3))
        said = sluice.said()
        sluice.stop()

        sluice = start(wrong.stub.server, upstream_settings=MSK, variables=KEYS)
        assert not is_served(sluice.port)
        await_that(lambda: "upstream_authentication_failed" in sluice.said(), "the reason")
        said += sluice.said()

    assert len(set(right.shown)) == 1
    assert right.refused == 0
    assert wrong.refused == 1
    assert not any(each in said for each in (SECRET, *right.shown, *wrong.shown))


def test_a_pod_shows_its_identity_to_aws_and_the_keys_of_its_role_to_msk(
    start: Callable[..., SluiceProcess], sts: Sts, tmp_path: Path
) -> None:
    """As in EKS: a service account's token is the only secret of the pod."""
    file = tmp_path / "pod-token"
    file.write_text(POD_TOKEN)
    variables = {
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/billing",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(file),
        "AWS_ENDPOINT_URL_STS": sts.url,
        **ALONE,
    }
    broker = msk(SECRET)
    with broker.stub:
        sluice = start(broker.stub.server, upstream_settings=MSK, variables=variables)
        assert is_served(sluice.port)
        said = sluice.said()

    (asked,) = sts.asked
    assert asked["WebIdentityToken"] == [POD_TOKEN]
    assert not any(each in said for each in (POD_TOKEN, ROLE_SECRET, ROLE_TOKEN, *broker.shown))


def test_a_plug_in_that_there_is_not_stops_the_start(tmp_path: Path) -> None:
    """With the exit code of settings that cannot be used, and the path of the key."""
    sluice = SluiceProcess(
        "127.0.0.1:1",
        tmp_path,
        upstream_settings={"sasl": {"mechanism": "OAUTHBEARER", "token_provider": "aws-msk"}},
    )
    with pytest.raises(BenchError, match="ended with 2") as caught:
        sluice.start()
    assert "upstream.sasl.token_provider" in str(caught.value)
    assert "did you mean aws-msk-iam?" in str(caught.value)
