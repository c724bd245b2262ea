"""The client's side of each mechanism, message by message."""

import pytest

from proxy.core.auth import scram
from proxy.core.auth.mechanisms import (
    MAX_KEYS,
    OAuthBearerClient,
    PlainClient,
    SaltedKeys,
    ScramClient,
)
from proxy.core.auth.scram import SCRAM_SHA_256, ServerFirst
from proxy.core.errors import UpstreamAuthenticationError

PASSWORD = "pencil"  # noqa: S105 - of the RFC
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram_client(password: str = PASSWORD) -> ScramClient:
    """Return the client of RFC 7677's example."""
    return ScramClient("user", SaltedKeys(SCRAM_SHA_256, lambda: password), NONCE)


def test_plain_sends_name_and_password_in_one_message() -> None:
    """The message is that of RFC 4616 in UTF-8, without an authorization identity; the broker's success is the end."""
    client = PlainClient("älice", lambda: "pä,=ss")
    assert client.first() == "\0älice\0pä,=ss".encode()
    assert client.work_for(b"") is None
    assert client.evaluate(b"") is None


def test_scram_speaks_as_in_the_rfc() -> None:
    """The messages are those of RFC 7677's example; the exchange ends with the server's signature."""
    client = scram_client()
    assert client.first() == f"n,,n=user,r={NONCE}".encode()
    work = client.work_for(SERVER_FIRST)
    assert work is not None
    work()
    assert client.work_for(SERVER_FIRST) is None
    assert client.evaluate(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.evaluate(SERVER_FINAL) is None


def test_a_key_is_derived_once_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second exchange with the same salt finds the key; another salt needs another, and the memory is bounded."""
    derived: list[bytes] = []

    def derive(_: object, password: bytes, salt: bytes, iterations: int) -> bytes:
        derived.append(salt)
        return b"%b-%b-%d" % (password, salt, iterations)

    monkeypatch.setattr(scram, "salted_password", derive)
    keys = SaltedKeys(SCRAM_SHA_256, lambda: PASSWORD)
    assert keys.find(ServerFirst("n", b"a", 4096)) == b"pencil-a-4096"
    assert keys.has(ServerFirst("other", b"a", 4096))
    assert not keys.has(ServerFirst("n", b"a", 4097))
    keys.find(ServerFirst("other", b"a", 4096))
    assert derived == [b"a"]
    for number in range(3 * MAX_KEYS):
        keys.find(ServerFirst("n", b"%d" % number, 4096))
    assert sum(keys.has(ServerFirst("n", salt, 4096)) for salt in set(derived)) == MAX_KEYS


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b'{"status":"invalid_token"}', "invalid_token"),
        (b'{"status":"insufficient_scope","scope":"x"}', "insufficient_scope"),
        (b'{"status":"a.b.c"}', "no known reason"),
        (b'{"status":["invalid_token"]}', "no known reason"),
        (b"[" * 50_000, "no known reason"),
        (b"\xff", "no known reason"),
        (b"[]", "no known reason"),
    ],
)
def test_a_challenge_of_oauthbearer_is_a_failure(challenge: bytes, why: str) -> None:
    """It is answered with 01, as RFC 7628 asks; the error repeats known reasons only, never the broker's words."""
    client = OAuthBearerClient(lambda: "a.b.c")
    assert client.evaluate(challenge) == b"\x01"
    assert client.failure == why
    for success in (b"", challenge):
        with pytest.raises(UpstreamAuthenticationError, match="refused the token") as caught:
            client.evaluate(success)
        assert "a.b.c" not in str(caught.value)
