"""The users alice and bob of Sluice's own listener, and a service of passwords that works when the test says so."""

import struct
from collections import deque
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Final

from proxy.core.auth.passwords import PasswordCheck, Passwords
from proxy.core.auth.sasl_answers import Answer, Step, UncheckedPassword
from proxy.core.auth.sasl_server import Authentication, SaslServer
from proxy.core.auth.scram import MECHANISMS, MIN_ITERATIONS
from proxy.core.auth.stored_users import Credential, Users, new_credential
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import Scram
from wire.apis import ApiKey
from wire.sasl import authenticate_reply, handshake_error

NAMES: Final = ("alice", "bob")
OFFERED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def password_of(name: str) -> str:
    """Return the password of a user."""
    return f"{name}-secret"


@cache
def credentials(names: tuple[str, ...] = NAMES) -> tuple[tuple[str, Credential], ...]:
    """Return (name, keys) for both mechanisms of each user."""
    return tuple(
        (
            name,
            new_credential(
                mechanism, password_of(name).encode(), f"salt of {name}".encode(), MIN_ITERATIONS
            ),
        )
        for name in names
        for mechanism in MECHANISMS.values()
    )


class Checker:
    """Queues up to `max_waiting` checks; `run_all` does them, as a thread would."""

    def __init__(self, max_waiting: int = 8) -> None:
        self.max_waiting = max_waiting
        self.waiting: deque[tuple[PasswordCheck, Callable[[bool | None], None]]] = deque()
        self.done = 0

    def submit(
        self, check: PasswordCheck, address: str, on_done: Callable[[bool | None], None]
    ) -> bool:
        """Queue a check; return False if the queue is full."""
        if len(self.waiting) >= self.max_waiting:
            return False
        self.waiting.append((check, on_done))
        return True

    def drop_all(self) -> None:
        """Give the places of the checks that wait to others."""
        while self.waiting:
            self.waiting.popleft()[1](None)

    def run_all(self) -> None:
        """Do the checks that wait."""
        while self.waiting:
            check, on_done = self.waiting.popleft()
            self.done += 1
            on_done(check.run())


def sasl_server(
    max_reauth_ms: int = 0,
    mechanisms: tuple[str, ...] = OFFERED,
    users: Users | None = None,
    max_waiting: int = 8,
) -> tuple[SaslServer, Checker]:
    """Return a server with these users (by default alice and bob), and the service that verifies its passwords."""
    checker, serial = Checker(max_waiting), count(1)
    server = SaslServer(
        mechanisms,
        Users(credentials()) if users is None else users,
        Passwords(b"key of this process", checker.submit),
        lambda: f"nonce{next(serial)}",
        max_reauth_ms,
    )
    return server, checker


class Client:
    """One connection without a session, at `now_ms`."""

    def __init__(self, max_reauth_ms: int = 0, **options: tuple[str, ...]) -> None:
        self.server, self.checker = sasl_server(max_reauth_ms, **options)  # type: ignore[arg-type]
        self.authentication = Authentication(self.server)
        self.now_ms = 1_000

    def shake(self, mechanism: str) -> int:
        """Return the error code of a SaslHandshake."""
        self.allow(ApiKey.SASL_HANDSHAKE)
        body = f.string(mechanism)
        self.answer = self.authentication.on_handshake(body, self.now_ms)
        return handshake_error(self.answer.body)

    def say(self, token: bytes, version: int = 1) -> Answer:
        """Return the answer to a token; a password is verified at once."""
        self.allow(ApiKey.SASL_AUTHENTICATE)
        body = struct.pack(">i", len(token)) + token
        found = self.authentication.on_token(body, version, self.now_ms)
        if isinstance(found, UncheckedPassword):
            found = verified(self.authentication, self.checker, found, self.now_ms)
        self.answer = found
        return found

    def scram(self, exchange: Scram) -> Answer:
        """Return the last answer to a SCRAM exchange."""
        assert self.shake(exchange.mechanism) == 0
        first = authenticate_reply(self.say(exchange.first).body, 1)
        if first.error_code:
            return self.answer
        return self.say(exchange.final(first.auth_bytes))

    def allow(self, api_key: int) -> None:
        """Raise as the connection ends if this API is not allowed now."""
        self.authentication.check(api_key, ApiKey(api_key).name, self.now_ms)


def verified(
    authentication: Authentication, checker: Checker, pending: UncheckedPassword, now_ms: int
) -> Answer:
    """Return the answer to a token whose password is verified now."""
    said: list[bool | None] = []
    passwords = authentication._server.passwords
    assert passwords.try_check(*pending[:3], "10.0.0.1", said.append)
    checker.run_all()
    assert said[0] is not None
    return authentication.on_checked(pending, now_ms, is_right=said[0])


def message_of(answer: Answer, version: int = 1) -> str:
    """Return the error message of a SaslAuthenticate reply; its code must be SASL_AUTHENTICATION_FAILED."""
    assert struct.unpack_from(">h", answer.body)[0] == sasl.FAILED
    assert answer.outcome is Step.FAILED
    (length,) = struct.unpack_from(">h", answer.body, 2)
    return answer.body[4 : 4 + length].decode()
