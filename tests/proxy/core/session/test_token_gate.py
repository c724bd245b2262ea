"""A session whose client authenticates to Sluice by a token: who it is, how long, and what a refused one sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth.sasl_server import FAILURE_DELAY_MS, MAX_TOKEN_SESSION_MS
from proxy.core.errors import CloseReason
from tests.support.core.gated import ALICE, Gated
from tests.support.core.token_logins import (
    SKEW_MS,
    Keys,
    bearer_tokens,
    first_message,
    token_of,
)
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.shell.sasl_service import OFFERED
from wire.oauthbearer import DISMISSED, TOKEN_REFUSED
from wire.sasl import AuthenticateReply, authenticate_body, authenticate_reply, handshake_body

MECHANISMS = (*OFFERED, "OAUTHBEARER")
SHAKEN = f.reply(1, handshake_body(0, MECHANISMS))
LIVES_MS = 600_000


class TokenGate(Gated):
    """One session with a gate that takes tokens."""

    def __init__(self, max_reauth_ms: int = 0, *kids: str) -> None:
        super().__init__(max_reauth_ms)
        server = self.engine.sasl_server
        assert server is not None
        self.keys = Keys(*(kids or ("a",)))
        server.tokens = bearer_tokens(self.keys, self.checker)
        server.mechanisms = MECHANISMS
        self.now_ms = 0

    def login(self, token: bytes, correlation_id: int = 2) -> AuthenticateReply:
        """Return the reply to a login by this token."""
        before = len(self.wire.to_client)
        self.wire.client(sasl.handshake(1, "OAUTHBEARER"))
        self.wire.client(sasl.authenticate(correlation_id, first_message(token)))
        self.verify()
        said = self.wire.to_client[before + len(SHAKEN) :]
        return authenticate_reply(said[8:], 1)

    def token(
        self, user: str = "alice", lives_ms: int = LIVES_MS, *groups: str, **more: int
    ) -> bytes:
        """Return a token that lives from now on."""
        return token_of(user, self.wire.session.shared.now_ms + lives_ms, *groups, **more)


def test_a_token_gives_the_user_its_groups_and_its_proof() -> None:
    """Requests after it are judged so; the broker sees nothing of the login."""
    gate = TokenGate()
    assert gate.login(gate.token("alice", LIVES_MS, "ops", "dev")) == (0, b"", LIVES_MS)
    assert gate.speaker() == ("alice", "sasl")
    peer = gate.recorder.peers[-1]
    assert (peer.proof, peer.groups) == ("token", {"ops", "dev"})
    assert gate.wire.to_broker == f.heartbeat(9)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("dismissal", [DISMISSED, b"", b"more", first_message(token_of())])
def test_a_refused_token_is_answered_as_kafka_does(version: int, dismissal: bytes) -> None:
    """First the reason (RFC 7628), then, whatever the client says, Kafka's error; it may not try again."""
    gate = TokenGate()
    wire = gate.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    wire.client(sasl.authenticate(2, first_message(b"forged"), version))
    gate.verify()
    challenge = authenticate_body(version, b'{"status":"invalid_token"}')
    assert wire.to_client == SHAKEN + f.reply(2, challenge, tagged=version == 2)
    assert wire.session.shared.auth_failures == 1
    wire.client(sasl.authenticate(3, dismissal, version))
    wire.advance(FAILURE_DELAY_MS)
    words = (
        TOKEN_REFUSED
        if dismissal == DISMISSED
        else (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
        )
    )
    failure = authenticate_body(version, error_code=sasl.FAILED, message=words)
    assert wire.to_client.endswith(f.reply(3, failure, tagged=version == 2))
    assert wire.session.shared.auth_failures == 1, "it is one failure"
    assert gate.reason is CloseReason.AUTHENTICATION_FAILED
    assert wire.to_broker == b""
    assert wire.held_bytes == 0


def test_nothing_passes_between_a_refusal_and_its_dismissal() -> None:
    """The client is not authenticated."""
    gate = TokenGate()
    gate.login(b"forged")
    gate.wire.client(f.heartbeat(3))
    assert gate.reason is CloseReason.AUTHENTICATION_REQUIRED
    assert gate.wire.to_broker == b""


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,a=\xff,\x01auth=Bearer x\x01\x01",
        first_message(token_of())[:-1],
    ],
)
def test_a_message_of_another_form_fails_at_once(message: bytes) -> None:
    """As at a broker, which reads no token there."""
    gate = TokenGate()
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER") + sasl.authenticate(2, message))
    gate.wire.advance(FAILURE_DELAY_MS)
    assert gate.reason is CloseReason.AUTHENTICATION_FAILED
    assert not gate.checker.done


@pytest.mark.parametrize(("authzid", "is_in"), [("", True), ("alice", True), ("bob", False)])
def test_a_client_may_act_as_itself_alone(authzid: str, *, is_in: bool) -> None:
    """Kafka's error names both."""
    gate = TokenGate()
    message = first_message(gate.token()).replace(b"n,,", f"n,a={authzid},".encode())
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER") + sasl.authenticate(2, message))
    gate.verify()
    gate.wire.advance(FAILURE_DELAY_MS)
    assert (gate.wire.session.peer.user == "alice") is is_in
    assert (b"(bob) that is different" in gate.wire.to_client) is not is_in


@pytest.mark.parametrize(
    ("lives_ms", "max_reauth_ms", "expected_ms"),
    [
        (LIVES_MS, 0, LIVES_MS),
        (LIVES_MS, 60_000, 60_000),
        (LIVES_MS, 2 * LIVES_MS, LIVES_MS),
        (-1, 0, SKEW_MS - 1),
        (10**13, 0, MAX_TOKEN_SESSION_MS),
    ],
)
def test_a_session_ends_with_its_token_or_earlier(
    lives_ms: int, max_reauth_ms: int, expected_ms: int
) -> None:
    """The client is told when (KIP-368); a request after that ends the connection."""
    gate = TokenGate(max_reauth_ms)
    gate.wire.advance(100_000)
    assert gate.login(gate.token("alice", lives_ms)).session_lifetime_ms == expected_ms
    gate.wire.advance(expected_ms - 1)
    gate.speaker()
    gate.wire.advance(1)
    gate.wire.client(f.heartbeat(10))
    assert gate.reason is CloseReason.SESSION_EXPIRED


def test_a_newer_token_of_the_same_user_prolongs_the_session() -> None:
    """Its groups are those of the user from then on."""
    gate = TokenGate()
    gate.login(gate.token("alice", LIVES_MS, "ops"))
    gate.wire.advance(LIVES_MS - 1)
    assert gate.login(gate.token("alice", LIVES_MS, "dev")).session_lifetime_ms == LIVES_MS
    gate.wire.advance(LIVES_MS - 1)
    gate.speaker()
    assert gate.recorder.peers[-1].groups == {"dev"}


def test_a_token_that_ends_in_a_moment_may_be_replaced_in_time() -> None:
    """A client is told half a second, and comes again before that: here, other than at a broker, it may."""
    gate = TokenGate()
    gate.login(gate.token())
    gate.wire.advance(LIVES_MS - 1_000)
    gate.login(gate.token("alice", 500, serial=1))
    gate.wire.advance(450)
    assert gate.login(gate.token("alice", LIVES_MS, serial=2)).session_lifetime_ms == LIVES_MS
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    assert gate.wire.to_client.endswith(f.reply(1, handshake_body(sasl.ILLEGAL_STATE)))


def test_a_token_of_another_user_ends_the_session() -> None:
    """As at a broker: principals do not change."""
    gate = TokenGate()
    gate.login(gate.token())
    gate.wire.advance(LIVES_MS // 2)
    gate.wire.client(sasl.handshake(3, "OAUTHBEARER"))
    gate.wire.client(sasl.authenticate(4, first_message(gate.token("bob"))))
    gate.verify()
    gate.wire.advance(FAILURE_DELAY_MS)
    assert b"Cannot change principals during re-authentication from User.alice: User.bob" in (
        gate.wire.to_client
    )
    assert gate.reason is CloseReason.AUTHENTICATION_FAILED
    assert "bob" not in [peer.user for peer in gate.recorder.peers]


def test_a_token_known_before_needs_no_check() -> None:
    """A pool of clients with one token costs one signature; its time is judged at each login."""
    gate = TokenGate()
    token = gate.token()
    gate.login(token)
    assert gate.checker.done == 1
    gate.wire.advance(1_000)
    assert gate.login(token).session_lifetime_ms == LIVES_MS - 1_000
    assert gate.checker.done == 1
    gate.wire.advance(LIVES_MS + SKEW_MS - 1_000)
    other = TokenGate()
    other.wire.advance(LIVES_MS + SKEW_MS)
    assert other.login(token).auth_bytes == TOKEN_REFUSED.encode()


def test_a_client_that_cannot_be_judged_is_disconnected_without_a_reply() -> None:
    """An error would be final for it, and its token may be right."""
    gate = TokenGate()
    gate.keys.revision = gate.keys.renewals = 0
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    gate.wire.client(sasl.authenticate(2, first_message(gate.token())))
    assert gate.reason is CloseReason.NO_TOKEN_KEYS
    assert gate.wire.to_client == SHAKEN
    full = TokenGate()
    full.checker.max_waiting = 0
    full.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    full.wire.client(sasl.authenticate(2, first_message(full.token())))
    assert full.reason is CloseReason.AUTHENTICATION_OVERLOADED


def test_a_client_waits_for_keys_that_are_loaded() -> None:
    """Its requests wait behind the login, and pass under its user."""
    gate = TokenGate()
    gate.keys.published = frozenset({"a", "b"})
    token = gate.token(kid="b")  # type: ignore[arg-type]
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    gate.wire.client(sasl.authenticate(2, first_message(token)) + f.heartbeat(3))
    gate.verify()
    assert gate.wire.to_broker == b""
    gate.keys.load()
    gate.verify()
    assert gate.wire.to_broker == f.heartbeat(3)
    assert gate.recorder.peers[-1].user == "alice"


def test_a_client_that_leaves_while_its_token_is_checked_leaves_nothing() -> None:
    """Neither memory, nor a reply to nobody; the next client is served."""
    gate = TokenGate()
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    gate.wire.client(sasl.authenticate(2, first_message(gate.token())))
    gate.wire.session.client_gone(gate.wire.now_ms)
    gate.verify()
    assert gate.wire.held_bytes == 0
    assert gate.wire.to_client == SHAKEN


def test_a_user_by_token_need_not_be_in_the_users_file() -> None:
    """A changed file disconnects users by password alone."""
    gate, other = TokenGate(), TokenGate()
    gate.login(gate.token("carol"))
    other.sign_in(ALICE)
    for each in (gate, other):
        each.engine.disconnect_removed_users({})
    assert gate.reason is None
    assert other.reason is CloseReason.USER_REMOVED


def test_no_token_is_in_a_text_that_may_be_logged() -> None:
    """Nor in what an exception shows of a pending check."""
    gate = TokenGate()
    token = gate.token()
    server = gate.engine.sasl_server
    assert server is not None
    gate.wire.client(sasl.handshake(1, "OAUTHBEARER"))
    gate.wire.client(sasl.authenticate(2, first_message(token)))
    for shown in (gate.wire.session.sasl, server, *gate.checker.waiting):
        assert token.decode() not in repr(shown)


ORDERS = [
    sasl.handshake(1, "OAUTHBEARER"),
    sasl.handshake(1, "PLAIN"),
    sasl.authenticate(2, first_message(token_of())),
    sasl.authenticate(2, first_message(token_of("bob", serial=1))),
    sasl.authenticate(2, first_message(token_of(kid="unknown"))),
    sasl.authenticate(2, first_message(b"forged")),
    sasl.authenticate(2, DISMISSED),
    sasl.authenticate(2, ALICE),
    f.heartbeat(3),
    f.produce(6),
]


@given(st.lists(st.sampled_from(ORDERS), max_size=7), st.lists(st.integers(1, 90), max_size=30))
def test_in_any_order_and_however_cut_only_a_good_token_lets_through(
    requests: list[bytes], cuts: list[int]
) -> None:
    """Nobody passes without a login, all bytes are given back, and where a read ends changes nothing."""
    seen = []
    for sizes in ([len(b"".join(requests))], cuts):
        gate, at, stream = TokenGate(), 0, b"".join(requests)
        for size in (*sizes, len(stream)):
            gate.wire.client(stream[at : at + size])
            at += size
        for _ in range(3):
            gate.verify()
            if gate.keys.renewals:
                gate.keys.load()
            gate.wire.advance(FAILURE_DELAY_MS)
        user = gate.wire.session.peer.user
        if user == "ANONYMOUS":
            assert gate.wire.to_broker == b""
        gate.wire.release()
        seen.append((gate.wire.to_client, gate.wire.to_broker, gate.reason, user))
        assert gate.wire.held_bytes == 0
        assert len(gate.recorder.completed) == len(gate.recorder.asked)
    assert seen[0] == seen[1]
