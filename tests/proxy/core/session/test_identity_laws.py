"""Identity's laws: it agrees with a simple model, and keeps no secret."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.errors import PrincipalChangedError
from proxy.core.session.identity import MAX_NAME_CHARS, UNKNOWN, Identity
from tests.support.messages.sasl import PROOF, SERVER_FINAL, SERVER_FIRST, plain, scram_first

NAMES = {plain(user, "pw"): user for user in ("alice", "bob")} | {
    scram_first(user): user for user in ("alice", "bob")
}
TOKENS = (*NAMES, PROOF)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("handshake"),
            st.sampled_from(("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI")),
            st.sampled_from((0, 33, 34)),
        ),
        st.tuples(
            st.just("token"),
            st.sampled_from(TOKENS),
            st.tuples(
                st.sampled_from((0, 0, 58)),
                st.sampled_from((b"", SERVER_FIRST, SERVER_FINAL, b"{}")),
            ),
        ),
    ),
    max_size=12,
)


class Kafka:
    """Model: the rules of SASL for one exchange at a time, without pipelining."""

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.tokens: list[bytes] = []
        self.users: list[str | None] = []

    def hear(self, kind, said, answer) -> str | None:
        """Return the user that this step sets, UNKNOWN, or None."""
        if kind == "handshake":
            self.mechanism, self.tokens = (said if answer == 0 else None), []
            return None
        if self.mechanism is None:
            return None
        error, brought = answer
        self.tokens.append(said)
        mechanism, turn = self.mechanism, len(self.tokens)
        if error:
            self.mechanism = None
            return None
        if mechanism == "PLAIN" and turn == 1:
            self.mechanism = None
            return NAMES[said] if b"\0" in said else UNKNOWN
        if mechanism.startswith("SCRAM") and turn == 2 and brought == SERVER_FINAL:
            self.mechanism = None
            first = self.tokens[0]
            return NAMES[first] if first.startswith(b"n,") else UNKNOWN
        if (mechanism == "OAUTHBEARER" and turn == 1 and not brought) or mechanism == "GSSAPI":
            self.mechanism = None
            return UNKNOWN
        return None


@given(STEPS, st.data())
def test_the_principal_is_set_exactly_when_the_rules_say_so(steps, data) -> None:
    """After any pipelined handshakes, tokens and answers; once set it never changes."""
    kafka, identity = Kafka(), Identity()
    unanswered: list[tuple[str, object, object]] = []
    expected: list[str] = []

    def answer() -> bool:
        kind, said, reply = unanswered.pop(0)
        mechanism = kafka.mechanism
        user = kafka.hear(kind, said, reply)
        try:
            if kind == "handshake":
                identity.on_handshake_reply(reply)
                got = None
            else:
                got = identity.on_token_reply(*reply)
        except PrincipalChangedError:
            assert user is not None
            assert expected
            known = {user, identity.principal.user} - {UNKNOWN}
            assert len(known) == 2 or mechanism != expected[0]
            return False
        if user is not None and not expected:
            expected[:] = [mechanism, user]
        assert (got is not None) == (user is not None)
        assert (identity.principal is not None) == bool(expected)
        if expected:
            assert identity.principal.user == expected[1]
        return True

    for kind, said, reply in steps:
        (identity.on_handshake if kind == "handshake" else identity.on_token)(said)
        unanswered.append((kind, said, reply))
        while unanswered and data.draw(st.booleans()):
            if not answer():
                return
    while unanswered:
        if not answer():
            return


def test_no_secret_is_kept() -> None:
    """Of the tokens only names are kept: no password, nonce or proof can be reached."""
    secret = "hunter2-c4f1"  # noqa: S105 - not a real one
    identity = Identity()
    identity.on_handshake("PLAIN")
    identity.on_token(plain("alice", secret))
    identity.on_handshake_reply(0)
    identity.on_token_reply(0, secret.encode())
    identity.on_handshake("SCRAM-SHA-256")
    identity.on_token(scram_first("alice", extensions=f",x={secret}"))
    identity.on_token(f"c=biws,r={secret},p={secret}".encode())
    assert identity.principal.user == "alice"
    assert not [each for each in kept_by(identity) if secret in repr(each)]


def test_the_names_that_are_kept_are_bounded() -> None:
    """No text is longer than MAX_NAME_CHARS, however long the client makes it."""
    identity = Identity()
    identity.on_handshake("x" * 32767)
    identity.on_handshake("PLAIN")
    identity.on_token(plain("y" * 100_000, "pw"))
    texts = [each for each in kept_by(identity) if isinstance(each, str | bytes)]
    assert max(map(len, texts)) <= MAX_NAME_CHARS


def kept_by(identity: Identity) -> list[object]:
    """Return everything that can be reached from it, except code."""
    seen: dict[int, object] = {}
    todo: list[object] = [identity]
    while todo:
        each = todo.pop()
        if id(each) not in seen and not isinstance(each, type):
            seen[id(each)] = each
            todo += gc.get_referents(each)
    return list(seen.values())
