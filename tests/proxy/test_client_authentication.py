"""The users file while Sluice runs: loaded at the start, again when it changes, and never half."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs

from proxy import client_authentication
from proxy.client_authentication import POLL_S, ClientAuthentication
from proxy.config.client_logins import ListenSasl
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.shell.clock import Clock
from proxy.shell.event_loop import EventLoop
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.shell.sasl_service import credentials, password_of


class Running:
    """An engine whose clients authenticate with the users of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("alice", "bob")
        self.engine: Engine = make_engine()
        self.event_loop = EventLoop(self.engine, Clock())
        settings = ListenSasl(users_file=str(path), mechanisms=("PLAIN", "SCRAM-SHA-512"))
        self.service = ClientAuthentication(settings, self.engine, self.event_loop)

    def write(self, *names: str) -> None:
        lines = (f"{name} {credential}\n" for name, credential in credentials(names))
        self.path.write_text("".join(lines))

    @property
    def users(self) -> list[str]:
        server = self.engine.sasl_server
        assert server is not None
        return list(server.users)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path / "users")
    yield made
    made.event_loop.close()


@pytest.fixture
def nudged(monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Return an event that is set when the event loop is to look at what has changed."""
    event = trio.Event()
    monkeypatch.setattr(client_authentication, "nudge", lambda _: event.set())
    return event


async def test_a_password_is_verified_by_the_thread_and_a_removed_user_is_disconnected(
    running: Running, nursery: trio.Nursery, nudged: trio.Event
) -> None:
    """From the client's token to the reply; the line in the log says how many connections a change ended."""
    nursery.start_soon(running.service.run)
    wire = Wire(running.engine)
    token = plain("alice", password_of("alice"))
    wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, token))
    assert wire.session.peer.user == "ANONYMOUS"
    await nudged.wait()
    wire.settle()
    assert wire.session.peer.user == "alice"
    assert len(wire.to_client) > 50
    running.write("bob")
    with capture_logs() as lines:
        assert await running.service.load_changed() == ""
    assert wire.session.reason is CloseReason.USER_REMOVED
    assert lines == [
        {"event": "users_loaded", "users": 1, "disconnected": 1, "log_level": "info"},
    ]


async def test_a_changed_file_is_loaded_by_itself(
    running: Running,
    nursery: trio.Nursery,
    nudged: trio.Event,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """At the next look, POLL_S seconds later at most."""
    nursery.start_soon(running.service.run)
    await trio.sleep(POLL_S / 2)
    running.write("bob", "carol")
    with capture_logs() as lines:
        await nudged.wait()
    assert running.users == ["bob", "carol"]
    assert [line["event"] for line in lines] == ["users_loaded"]


@pytest.mark.parametrize("content", [b"alice secret\n", b"\xff", None])
async def test_a_file_that_cannot_be_used_changes_nothing_until_it_is_repaired(
    running: Running, content: bytes | None
) -> None:
    """The old users stay; each reload is refused, and says why without the content."""
    if content is None:
        running.path.unlink()
    else:
        running.path.write_bytes(content)
    with capture_logs() as lines:
        problem = await running.service.load_changed()
    assert problem.startswith("listen.sasl.users_file: ")
    assert "secret" not in problem
    assert running.users == ["alice", "bob"]
    assert [line["event"] for line in lines] == ["users_refused"]
    assert await running.service.load_changed() == problem
    running.write("alice")
    assert await running.service.load_changed() == ""
    assert running.users == ["alice"]


async def test_without_the_setting_nothing_is_done(running: Running) -> None:
    """The brokers authenticate the clients; no file is read, no task runs."""
    engine = make_engine()
    service = ClientAuthentication(None, engine, running.event_loop)
    await service.run()
    assert await service.load_changed() == ""
    assert engine.sasl_server is None


async def test_a_file_without_the_secret_of_stand_ins_gets_one_for_the_life_of_the_process(
    running: Running,
) -> None:
    """A changed file alters no salt of a name that is no user's."""
    server = running.engine.sasl_server
    assert server is not None
    before = server.users.find("eve", "SCRAM-SHA-512").credential
    running.write("carol")
    assert await running.service.load_changed() == ""
    assert server.users.find("eve", "SCRAM-SHA-512").credential.salt[:9] == before.salt[:9]
    other = make_engine()
    ClientAuthentication(ListenSasl(users_file=str(running.path)), other, running.event_loop)
    assert other.sasl_server is not None
    assert other.sasl_server.users.find("eve", "SCRAM-SHA-512").credential != before
