"""A login by a delegation token counts for the token's owner, once a broker's reply has told who that is."""

import struct

import pytest

from proxy.core.session.token_owners import MAX_CHARS, MAX_OWNERS, TokenOwners
from tests.support.core.policies import Recorder
from tests.support.core.sasl_steps import (
    BY_PLAIN,
    BY_SCRAM,
    SCRAM,
    UNKNOWN,
    Steps,
    play,
    say,
    shake,
    speaker,
)
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.sasl import PROOF, SERVER_FINAL, SERVER_FIRST, scram_first

BY_TOKEN: Steps = [
    shake(SCRAM),
    say(scram_first("token-7", extensions=",tokenauth=true"), SERVER_FIRST),
    say(PROOF, SERVER_FINAL),
]
CAROL = ("carol", "tls")


def created(owner: str, token_id: str, kind: str = "User") -> bytes:
    """Return the body of a CreateDelegationToken v1 reply."""
    return b"".join(
        (
            *(b"\0\0", f.string(kind), f.string(owner), bytes(24), f.string(token_id)),
            *(f.bytes_field(b"hmac"), bytes(4)),
        )
    )


def create(wire: Wire, owner: str, name: str = "token-7", kind: str = "User") -> Wire:
    """Ask for a token, and be told that `owner` has it."""
    request = f.request(38, 1, 5, struct.pack(">iq", 0, -1))
    reply = f.reply(5, created(owner, name, kind))
    before = wire.to_client
    wire.client(request).broker(reply)
    assert wire.to_client == before + reply
    return wire


def connected(recorder: Recorder, tls_user: str = "", **options: object) -> Wire:
    """Return a session of a client whose certificate names this user."""
    return Wire(make_engine([recorder], **options), tls_user=tls_user)  # type: ignore[arg-type] # the test's own


def test_a_token_that_was_made_through_sluice_counts_for_its_owner() -> None:
    """In any session of the process; the reply that tells it passes unchanged."""
    recorder = Recorder()
    wire = connected(recorder)
    create(play(wire, *BY_SCRAM), "alice")
    other = play(Wire(wire.engine), *BY_TOKEN)
    assert speaker(other, recorder) == ("alice", "sasl")


def test_a_token_that_was_made_elsewhere_counts_for_unknown() -> None:
    """Neither does one whose owner is no user, and one that was made for another id."""
    recorder = Recorder()
    wire = connected(recorder)
    create(wire, "alice", "token-8")
    create(wire, "machines", kind="Group")
    assert speaker(play(Wire(wire.engine), *BY_TOKEN), recorder) == UNKNOWN


@pytest.mark.parametrize(
    "steps",
    [
        BY_TOKEN,
        [shake("GSSAPI"), say(b"x")],
        [shake("OAUTHBEARER"), say(b"n,,opaque")],
        [shake("PLAIN"), say(b"bob\0alice\0secret")],
        [shake("PLAIN"), say(b"\0" + b"x" * 2000 + b"\0secret")],
    ],
    ids=["token", "GSSAPI", "opaque token", "authzid", "long name"],
)
def test_a_login_without_a_name_never_replaces_the_name_of_a_certificate(steps: Steps) -> None:
    """Else a client would shed the quota of the user that its certificate names."""
    recorder = Recorder()
    wire = play(connected(recorder, "carol"), *steps)
    assert speaker(wire, recorder) == CAROL
    wire = play(connected(recorder, fixed_user="billing"), *steps)
    assert speaker(wire, recorder) == ("billing", "fixed")
    wire = play(connected(recorder), *steps)
    assert speaker(wire, recorder) == UNKNOWN


def test_a_name_that_the_broker_has_confirmed_replaces_that_of_a_certificate() -> None:
    """As on Kafka's own SASL_SSL listener; also the owner of a token that is known."""
    recorder = Recorder()
    wire = play(connected(recorder, "carol"), *BY_PLAIN)
    assert speaker(wire, recorder) == ("alice", "sasl")
    owner = connected(recorder, "carol")
    create(owner, "alice")
    play(owner, *BY_TOKEN)
    assert speaker(owner, recorder) == ("alice", "sasl")


def test_a_second_authentication_that_names_the_user_tells_who_it_was() -> None:
    """Kafka accepts it only as the same user (KIP-368); the reverse takes no name away."""
    recorder = Recorder()
    wire = play(connected(recorder), *BY_TOKEN)
    assert speaker(wire, recorder) == UNKNOWN
    play(wire, *BY_SCRAM)
    assert speaker(wire, recorder) == ("alice", "sasl")
    play(wire, *BY_TOKEN)
    assert speaker(wire, recorder) == ("alice", "sasl")


def test_as_many_owners_are_kept_as_fit_and_the_oldest_is_forgotten() -> None:
    """Long names are not kept, and a reply that cannot be read changes nothing."""
    owners, api = TokenOwners(), api_of(38, 1)
    for number in range(MAX_OWNERS + 2):
        body = bytearray(created("alice", f"t{number}"))
        owners.learn(api, body, 0, len(body))
    assert len(owners.users) == MAX_OWNERS
    assert (owners.users.get("t1"), owners.users.get("t2")) == (None, "alice")
    for body in (
        bytearray(created("x" * (MAX_CHARS + 1), "long")),
        bytearray(created("alice", "")),
        bytearray(created("", "nameless")),
        bytearray(created("alice", "cut"))[:40],
    ):
        owners.learn(api, body, 0, len(body))
    assert len(owners.users) == MAX_OWNERS
    assert owners.users["t2"] == "alice"
