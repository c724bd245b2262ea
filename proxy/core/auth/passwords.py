"""Verifies passwords (PLAIN) against SCRAM's salted keys, without blocking the event loop.

- PBKDF2 takes milliseconds, so a thread does it: `submit` queues a check, or refuses it if the queue is full. A check
  that is queued may still lose its place to one from another address.
- A password that was right is remembered, as a keyed hash under a key of this process, so that reconnections are
  cheap. Changed keys of a user make it unknown. No password is kept.
- The same check is done once, however many connections wait for it: a pool of clients reconnects at once.
"""

from __future__ import annotations

from hmac import compare_digest, digest
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.auth.scram import ScramMechanism, salted_password, stored_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.stored_users import Credential

    OnDone = Callable[[bool | None], None]
    Submit = Callable[["PasswordCheck", str, OnDone], bool]

MAX_REMEMBERED: Final = 4096
_BLOCK_BYTES: Final = {"sha256": 64, "sha512": 128}


class PasswordCheck(NamedTuple):
    """Whether a password is that of `stored_key`. It has no reference to a connection, so a thread may have it."""

    mechanism: ScramMechanism
    password: bytes
    salt: bytes
    iterations: int
    stored_key: bytes

    def run(self) -> bool:
        """Return whether the password is right. It takes milliseconds."""
        salted = salted_password(self.mechanism, self.password, self.salt, self.iterations)
        found = stored_keys(self.mechanism, salted).stored_key
        return compare_digest(found, self.stored_key)

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"PasswordCheck({self.mechanism.name})"


class Passwords:
    """The checks that run, and the passwords that were right.

    `submit(check, address, on_done)` returns whether it has queued the check; `on_done` is called later, on the event
    loop: with whether the password is right, or None if the check was dropped.
    """

    __slots__ = ("_key", "_right", "_submit", "_waiting")

    def __init__(self, key: bytes, submit: Submit) -> None:
        self._key = key
        self._submit = submit
        self._right: dict[bytes, None] = {}  # the latest last
        self._waiting: dict[bytes, list[OnDone]] = {}

    def is_known(self, user: str, password: bytes, credential: Credential) -> bool:
        """Return whether this password was right for these keys of the user before."""
        mark = self._mark(user, password, credential)
        if mark not in self._right:
            return False
        self._remember(mark)
        return True

    def try_check(
        self, user: str, password: bytes, credential: Credential, address: str, on_done: OnDone
    ) -> bool:
        """Call `on_done` later with whether the password is right, None if other addresses needed its place.

        Return False if too many checks wait already. `address` is that of the client.
        """
        mark = self._mark(user, password, credential)
        waiting = self._waiting.get(mark)
        if waiting is not None:
            waiting.append(on_done)
            return True
        mechanism, salt, stored_key, _, iterations = credential
        if len(password) > _BLOCK_BYTES[mechanism.digest]:
            password = mechanism.hash(password)  # as HMAC does with a long key (RFC 2104)
        check = PasswordCheck(mechanism, password, salt, iterations, stored_key)
        if not self._submit(check, address, lambda is_right: self._on_done(mark, is_right)):
            return False
        self._waiting[mark] = [on_done]
        return True

    def _on_done(self, mark: bytes, is_right: bool | None) -> None:  # noqa: FBT001 - the result itself
        if is_right:
            self._remember(mark)
        for on_done in self._waiting.pop(mark):
            on_done(is_right)

    def _remember(self, mark: bytes) -> None:
        self._right.pop(mark, None)
        self._right[mark] = None
        if len(self._right) > MAX_REMEMBERED:
            del self._right[next(iter(self._right))]

    def _mark(self, user: str, password: bytes, credential: Credential) -> bytes:
        """Return what stands for a user, its keys and a password: it does not reveal them without the key."""
        name = user.encode()
        parts = len(name).to_bytes(4, "big"), name, credential.stored_key, password
        return digest(self._key, b"".join(parts), "sha256")
