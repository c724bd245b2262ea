"""Passwords are verified once, by a service that the test runs, and only a keyed hash of a right one is kept."""

from proxy.core.auth.passwords import MAX_REMEMBERED, PasswordCheck, Passwords
from proxy.core.auth.scram import MECHANISMS, MIN_ITERATIONS
from proxy.core.auth.stored_users import Credential, Users, new_credential
from tests.support.shell.sasl_service import Checker, credentials

SECRET = b"alice-secret"
ADDRESS = "10.0.0.1"
ALICE = Users(credentials()).find_any("alice").credential


def book(max_waiting: int = 8) -> tuple[Passwords, Checker]:
    checker = Checker(max_waiting)
    return Passwords(b"key", checker.submit), checker


def test_a_password_is_right_or_wrong_when_the_service_says_so() -> None:
    """The answer comes later, to each caller its own."""
    passwords, checker = book()
    said: list[tuple[bytes, bool]] = []
    for secret in (SECRET, b"wrong"):
        assert passwords.try_check(
            "alice", secret, ALICE, ADDRESS, lambda r, s=secret: said.append((s, r))
        )
    assert said == []
    checker.run_all()
    assert said == [(SECRET, True), (b"wrong", False)]


def test_only_a_right_password_is_remembered() -> None:
    """For this user and these keys alone, so that a changed password does not count any more."""
    passwords, checker = book()
    for secret in (SECRET, b"wrong"):
        passwords.try_check("alice", secret, ALICE, ADDRESS, lambda _: None)
    assert not passwords.is_known("alice", SECRET, ALICE)
    checker.run_all()
    assert passwords.is_known("alice", SECRET, ALICE)
    assert not passwords.is_known("alice", b"wrong", ALICE)
    assert not passwords.is_known("bob", SECRET, ALICE)
    assert not passwords.is_known("alic", b"e" + SECRET, ALICE)
    changed = ALICE._replace(stored_key=bytes(64))
    assert not passwords.is_known("alice", SECRET, changed)


def test_equal_checks_are_done_once() -> None:
    """A pool of clients that reconnects at once waits for one check, and all get its result."""
    passwords, checker = book(max_waiting=1)
    said: list[bool] = []
    assert all(passwords.try_check("alice", SECRET, ALICE, ADDRESS, said.append) for _ in range(50))
    checker.run_all()
    assert said == [True] * 50
    assert checker.done == 1


def test_a_full_queue_refuses() -> None:
    """Then nothing is kept of the check; it can be tried again later."""
    passwords, checker = book(max_waiting=1)
    assert passwords.try_check("alice", b"1", ALICE, ADDRESS, lambda _: None)
    assert not passwords.try_check("alice", b"2", ALICE, ADDRESS, lambda _: None)
    checker.run_all()
    assert passwords.try_check("alice", b"2", ALICE, ADDRESS, lambda _: None)


def test_the_oldest_password_is_forgotten_first() -> None:
    """The memory is bounded; a password that is used stays."""
    passwords, checker = book(max_waiting=2)
    kept = b"0"

    def learn(secret: bytes) -> None:
        credential = Credential(
            MECHANISMS["SCRAM-SHA-256"], b"salt", secret.rjust(32), b"x" * 32, MIN_ITERATIONS
        )
        marks.append((secret, credential))
        passwords.try_check("alice", secret, credential, ADDRESS, lambda _: None)
        _, on_done = checker.waiting.popleft()
        on_done(True)

    marks: list[tuple[bytes, Credential]] = []
    for number in range(MAX_REMEMBERED + 10):
        learn(str(number).encode())
        assert passwords.is_known("alice", kept, marks[0][1])
    assert not passwords.is_known("alice", *marks[1])
    assert passwords.is_known("alice", *marks[-1])


def test_a_long_password_is_shortened_as_hmac_does() -> None:
    """A token may have 512 KiB; what waits is at most a block of the hash function."""
    for mechanism in MECHANISMS.values():
        secret = b"x" * 100_000
        credential = new_credential(mechanism, secret, b"salt", MIN_ITERATIONS)
        passwords, checker = book()
        said: list[bool] = []
        passwords.try_check("alice", secret, credential, ADDRESS, said.append)
        assert len(checker.waiting[0][0].password) <= 64
        checker.run_all()
        assert said == [True]


def test_a_check_does_not_print_its_password() -> None:
    """Neither by repr nor by str, which a traceback or a task dump may use."""
    check = PasswordCheck(ALICE.mechanism, SECRET, ALICE.salt, 4096, ALICE.stored_key)

    assert "secret" not in f"{check!r} {check}"
