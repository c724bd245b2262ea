"""Clients that authenticate to Sluice: a flood of wrong passwords, and files that are replaced under load."""

import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

from proxy.core.auth.scram import SCRAM_SHA_256
from proxy.core.auth.stored_users import new_credential
from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.certificates import Authority

FLOOD = 300
SLOW_ITERATIONS = 20_000
"""A check takes some 10 ms, so the queue stays full while honest clients come."""


def write_users(file: Path, iterations: int = 4096, **passwords: str) -> None:
    """Replace the users file at once, as `sluice users` does."""
    fresh = file.with_suffix(".new")
    fresh.write_text(
        "".join(
            f"{name} {new_credential(SCRAM_SHA_256, password.encode(), name.encode(), iterations)}\n"
            for name, password in passwords.items()
        )
    )
    fresh.replace(file)


def logs_in(port: int, user: str, password: str, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a new client is authenticated and served."""
    with Talk(port, context=context) as talk:
        answer = talk.plain(plain(user, password))
        return answer is not None and not answer.error_code and talk.metadata()


class Flood:
    """Connections from 127.0.0.2 with a wrong password each. One that is closed is replaced, until the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(60)

    def _run(self) -> None:
        numbers = count()
        with ExitStack() as stack:
            clients = [self._connect(stack, next(numbers)) for _ in range(FLOOD)]
            while not self._ending.is_set():
                for closed in select.select(clients, [], [], 0.05)[0]:
                    with suppress(ConnectionError):
                        if closed.recv(4096):
                            continue
                    closed.close()
                    clients[clients.index(closed)] = self._connect(stack, next(numbers))

    def _connect(self, stack: ExitStack, number: int) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self._port), 60, ("127.0.0.2", 0))
        token = plain("user0", f"wrong{number}")
        with suppress(ConnectionError):
            client.sendall(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, token))
        return stack.enter_context(client)


def test_a_flood_of_wrong_passwords_from_one_address_keeps_no_other_address_out(
    start: Callable[..., SluiceProcess], broker: StubBroker, tmp_path: Path
) -> None:
    """Checks of the flood lose their places in the queue; other clients wait for their turn, and get in."""
    users = {f"user{n}": f"secret{n}" for n in range(3)}
    write_users(tmp_path / "users", SLOW_ITERATIONS, **users)
    listen = {"sasl": {"mechanisms": ["PLAIN"], "users_file": str(tmp_path / "users")}}
    sluice = start(broker.server, listen_settings=listen)
    with Flood(sluice.port):
        await_that(lambda: "authentication_overloaded" in sluice.said(), "the queue to be full")
        assert all(logs_in(sluice.port, *each) for each in users.items())


def test_users_and_certificates_that_are_replaced_together_under_load_end_no_session(
    start: Callable[..., SluiceProcess], broker: StubBroker, tmp_path: Path
) -> None:
    """Each new client meets whole files, old or new; sessions stay, but those of a removed user."""
    authority = Authority(tmp_path / "authority")
    own = authority.issue("127.0.0.1", file_name="own")
    users = tmp_path / "users"
    write_users(users, alice="first", bob="bob", carol="carol")
    tls = {"cert_file": str(own.cert_file), "key_file": str(own.key_file)}
    listen = {"tls": tls, "sasl": {"mechanisms": ["PLAIN"], "users_file": str(users)}}
    sluice = start(broker.server, listen_settings=listen)
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    problems: list[str] = []
    served: dict[str, int] = {}
    ending = threading.Event()

    def work(name: str, do: Callable[[], bool]) -> None:
        try:
            while not ending.is_set():
                if not do():
                    problems.append(f"{name} after {served.get(name)}: not served")
                    return
                served[name] = served.get(name, 0) + 1
        except (OSError, AssertionError) as problem:
            problems.append(f"{name} after {served.get(name)}: {problem!r}")

    with ExitStack() as stack:
        sessions = {}
        for user, password in (("alice", "first"), ("bob", "bob"), ("carol", "carol")):
            sessions[user] = stack.enter_context(Talk(sluice.port, context=context))
            answer = sessions[user].plain(plain(user, password))
            assert answer is not None
            assert not answer.error_code
        workers = [
            threading.Thread(target=work, args=(user, sessions[user].metadata), daemon=True)
            for user in ("alice", "bob")
        ]
        newcomer = (sluice.port, "bob", "bob", context)
        workers.append(
            threading.Thread(target=work, args=("new", lambda: logs_in(*newcomer)), daemon=True)
        )
        for each in workers:
            each.start()
        try:
            for number, password in enumerate(("second", "third", "fourth")):
                before = dict(served)
                authority.issue("127.0.0.1", file_name="own")
                write_users(users, alice=password, bob="bob")
                sluice.reload()
                await_that(lambda n=number: sluice.said().count("users_loaded") > n, "the users")
                await_that(
                    lambda n=number: sluice.said().count("certificates_loaded") > n, "certificates"
                )
                assert logs_in(sluice.port, "alice", password, context)
                assert not logs_in(sluice.port, "alice", "first", context)
                await_that(
                    lambda b=before: all(
                        served.get(n, 0) > b.get(n, 0) for n in ("alice", "bob", "new")
                    ),
                    "every worker to be served",
                )
            assert sessions["carol"].is_closed()
        finally:
            ending.set()
            for each in workers:
                each.join(60)
    assert not problems
    assert "certificates_refused" not in sluice.said()
