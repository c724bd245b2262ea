"""The keys for clients' tokens while Sluice runs: of a file, of an address, and of none."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from proxy import client_authentication
from proxy.client_authentication import ClientAuthentication
from proxy.config.client_logins import ListenOAuthBearer, ListenSasl
from proxy.config.small_files import FileError
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.shell.clock import Clock
from proxy.shell.event_loop import EventLoop
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import sasl
from tests.support.messages.sasl import bearer, unsigned_token
from tests.support.shell.token_issuer import AUDIENCE, ISSUER, IdentityProvider, jwks, signed

SECONDS = 20


class Running:
    """An engine whose clients show tokens."""

    def __init__(self, **settings: object) -> None:
        check = {"issuer": ISSUER, "audience": (AUDIENCE,), "groups_claim": "groups", **settings}
        self.engine: Engine = make_engine()
        self.engine.advance(int(time.time() * 1000))
        self.event_loop = EventLoop(self.engine, Clock())
        sasl_settings = ListenSasl(
            mechanisms=("OAUTHBEARER",), oauthbearer=ListenOAuthBearer(**check)
        )
        self.nudged = trio.Event()
        self.service = ClientAuthentication(sasl_settings, self.engine, self.event_loop)

    async def login(self, token: bytes) -> Wire:
        """Log in by this token; wait until there is an answer."""
        wire = Wire(self.engine)
        wire.client(sasl.handshake(1, "OAUTHBEARER"))
        before = len(wire.to_client)
        wire.client(sasl.authenticate(2, bearer(token.decode())))
        with trio.fail_after(SECONDS):
            while len(wire.to_client) == before and wire.session.reason is None:
                await trio.sleep(0.01)
                wire.settle()
        return wire


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(client_authentication, "nudge", lambda _: None)
    (tmp_path / "keys").write_bytes(jwks("ES256-a"))
    made = Running(jwks=str(tmp_path / "keys"), algorithms=("ES256",))
    yield made
    made.event_loop.close()


async def test_a_token_is_checked_by_the_thread(running: Running, nursery: trio.Nursery) -> None:
    """From the client's message to its user and groups."""
    nursery.start_soon(running.service.run)
    wire = await running.login(signed("ES256-a", groups=["ops"]))
    peer = wire.session.peer
    assert (peer.user, peer.proof, peer.groups) == ("alice", "token", {"ops"})
    wire = await running.login(signed("ES256-b"))
    assert wire.session.peer.user == "ANONYMOUS"


async def test_a_changed_file_counts_from_the_next_load_on(
    running: Running, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """A file that cannot be used changes nothing, and a reload says why."""
    nursery.start_soon(running.service.run)
    (tmp_path / "keys").write_bytes(jwks("ES256-b"))
    with capture_logs() as lines:
        assert await running.service.load_changed() == ""
    assert [line["event"] for line in lines] == ["token_keys_loaded"]
    assert (await running.login(signed("ES256-b"))).session.peer.user == "alice"
    assert (await running.login(signed("ES256-a"))).session.peer.user == "ANONYMOUS"
    (tmp_path / "keys").write_bytes(b"{}")
    why = await running.service.load_changed()
    assert why == "listen.sasl.oauthbearer.jwks: it has no list `keys` (RFC 7517)"
    assert (await running.login(signed("ES256-b", user="bob"))).session.peer.user == "bob"


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    """A gate without keys would refuse everyone; the operator is there now."""
    file = tmp_path / "keys"
    for content in (None, b"{}"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(FileError, match="keys"):
            Running(jwks=str(file))


async def test_the_keys_of_an_address_come_while_the_first_client_waits(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that is down does not stop the start; its clients are disconnected without an error."""
    monkeypatch.setattr(client_authentication, "nudge", lambda _: None)
    with IdentityProvider("ES256-a") as provider:
        running = Running(jwks=provider.url("/keys"), algorithms=("ES256",))
        nursery.start_soon(running.service.run)
        assert (await running.login(signed("ES256-a"))).session.peer.user == "alice"
        provider.status = 503
        down = Running(jwks=provider.url("/keys"), algorithms=("ES256",))
        nursery.start_soon(down.service.run)
        wire = await down.login(signed("ES256-a"))
    assert wire.session.reason is CloseReason.NO_TOKEN_KEYS
    for each in (running, down):
        each.event_loop.close()


async def test_unsigned_tokens_count_only_where_that_is_said(
    running: Running, nursery: trio.Nursery
) -> None:
    """The log warns, and no rule with a proof is about their users."""
    insecure = Running(
        jwks="", issuer="", audience=(), groups_claim="", accept_unsigned_tokens=True
    )
    with capture_logs() as lines:
        for each in (running, insecure):
            nursery.start_soon(each.service.run)
        token = unsigned_token("alice", 60).encode()
        peer = (await insecure.login(token)).session.peer
        assert (peer.user, peer.proof) == ("alice", "unsigned")
        assert (await running.login(token)).session.peer.user == "ANONYMOUS"
    assert "unsigned_tokens_accepted" in [line["event"] for line in lines]
    insecure.event_loop.close()


def test_a_sluice_without_tokens_has_none_of_their_code() -> None:
    """It would be some megabytes in each pod."""
    script = "import sys, proxy.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    assert "proxy.client_authentication" in loaded
    assert not [each for each in loaded if each == "jwt" or each.startswith("proxy.tokens")]
