"""The principal by Sluice and by the broker itself: exchanges spoken by hand before a real Kafka.

In every exchange both agree, no client has a name before the broker accepts it, and
no name changes afterwards. `tests/threats/test_t08_principal.py` covers a lying broker.
"""

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import OAUTH, PLAIN, SCRAM_256, SCRAM_512
from tests.support.kafka.sasl_talk import Talk, Token
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import (
    FAILED,
    ILLEGAL_STATE,
    UNSUPPORTED,
    Scram,
    bearer,
    plain,
    saslname,
    unsigned_token,
)
from tests.support.plugins.witness import Sightings, Witnessed
from tests.support.processes.sluice_process import SluiceProcess

ALICE = plain("alice", "alice-secret")
STRANGE = "a,b=c"
ANONYMOUS = ("ANONYMOUS", "none")


@dataclass(frozen=True, slots=True)
class World:
    """A Sluice before the broker, what its witness saw, and a delegation token of alice's."""

    sluice: SluiceProcess
    seen: Sightings
    token: Token

    @property
    def token_password(self) -> str:
        """The token's hmac, which serves as the password of its id."""
        return base64.b64encode(self.token.hmac).decode()


@pytest.fixture(scope="module")
def world(kafka_sasl: KafkaCluster, sluice_sasl: Witnessed) -> World:
    """Set up for all of this file."""
    admin = AdminClient({"bootstrap.servers": kafka_sasl.bootstrap})
    strange = UserScramCredentialUpsertion(
        STRANGE, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"strange-secret"
    )
    admin.alter_user_scram_credentials([strange])[STRANGE].result(30)
    with Talk(sluice_sasl.sluice.port) as talk:
        talk.plain(ALICE)
        token = talk.who()
    assert token is not None
    made = World(sluice_sasl.sluice, sluice_sasl.seen, token)
    _await_credentials(made)
    return made


def _await_credentials(world: World) -> None:
    """Wait until the broker has the credentials from the controller."""
    for exchange in (
        Scram(SCRAM_256, saslname(STRANGE), "strange-secret"),
        by_token(world, SCRAM_256),
    ):
        give_up = time.monotonic() + 120
        while True:
            with Talk(world.sluice.port) as talk:
                answer = talk.scram(exchange)
            if answer is not None and answer.error_code == 0:
                break
            assert time.monotonic() < give_up, f"{exchange.name} is not known to the broker"
            time.sleep(0.1)


def by_token(world: World, mechanism: str) -> Scram:
    return Scram(
        mechanism, world.token.token_id, world.token_password, extensions=",tokenauth=true"
    )


# --- the exchanges -------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """`principal` by Sluice; `owner` by the broker, None when it has closed the connection."""

    principal: tuple[str, str]
    owner: str | None


def named(user: str) -> Outcome:
    return Outcome((user, "sasl"), user)


CLOSED = Outcome(ANONYMOUS, None)
LOST = Outcome(("alice", "sasl"), None)
"""It was alice's until the broker closed it."""


def stranger_to_kafka(talk: Talk, _: World) -> None:
    assert talk.handshake("CRAM-MD5") == UNSUPPORTED


def refused(talk: Talk, message: bytes) -> None:
    answer = talk.plain(message)
    assert answer is not None
    assert answer.error_code == FAILED


def scram_refused(talk: Talk, exchange: Scram) -> None:
    answer = talk.scram(exchange)
    assert answer is not None
    assert answer.error_code == FAILED


def after_handshake(talk: Talk, mechanism: str, *tokens: bytes) -> None:
    """Exchange whose replies may or may not come."""
    assert talk.handshake(mechanism) == 0
    for token in tokens:
        talk.token(token)


def version(talk: Talk, api_version: int, behind: bytes = b"") -> None:
    assert talk.handshake(PLAIN) == 0
    answer = talk.token(ALICE, api_version, behind)
    assert answer is not None
    assert answer.error_code == 0
    assert answer.session_lifetime_ms == (3_600_000 if api_version else 0)


def byte_by_byte(talk: Talk, _: World) -> None:
    for request in (
        sasl.handshake(talk.next_id(), PLAIN),
        sasl.authenticate(talk.next_id(), ALICE),
    ):
        for at in range(len(request)):
            talk.send(request[at : at + 1])
        assert talk.receive() is not None


def all_at_once(talk: Talk, _: World) -> None:
    """Send without waiting for replies: the requests after the token are alice's all the same."""
    metadata = f.request(f.METADATA, 1, 3, b"\xff\xff\xff\xff")
    talk.send(sasl.handshake(1, PLAIN) + sasl.authenticate(2, ALICE) + metadata * 2)
    for _ in range(4):
        talk.next_id()
        assert talk.receive() is not None


def complaint(talk: Talk, _: World) -> None:
    """The broker's refusal of a bearer token begins with a success that carries a reason."""
    assert talk.handshake(OAUTH) == 0
    challenge = talk.token(bearer(unsigned_token("alice", -60)))
    assert challenge is not None
    assert (challenge.error_code, challenge.auth_bytes[:1]) == (0, b"{")
    acknowledged = talk.token(b"\x01")
    assert acknowledged is not None
    assert acknowledged.error_code == FAILED


def left_half_way(talk: Talk, _: World) -> None:
    assert talk.handshake(SCRAM_256) == 0
    challenge = talk.token(Scram(SCRAM_256, "alice", "alice-secret").first)
    assert challenge is not None
    assert challenge.auth_bytes.startswith(b"r=")


def again(talk: Talk, then: Callable[[Talk], object]) -> None:
    """Authenticate as alice by PLAIN first, which allows to authenticate again."""
    assert talk.plain(ALICE) == (0, b"", 3_600_000)
    assert talk.metadata()
    then(talk)


def another_mechanism(talk: Talk) -> None:
    """Kafka accepts the handshake, and closes at the token."""
    assert talk.handshake(SCRAM_256) == 0
    assert talk.token(Scram(SCRAM_256, "alice", "alice-secret").first) is None


def in_mid_pipeline(talk: Talk) -> None:
    """The requests before, between and after the two exchanges are all alice's."""
    metadata = f.request(f.METADATA, 1, 9, b"\xff\xff\xff\xff")
    second = sasl.handshake(1, PLAIN) + sasl.authenticate(
        2, plain("alice", "alice-secret", "alice")
    )
    talk.send(metadata * 3 + second + metadata * 3)
    for _ in range(8):
        assert talk.receive() is not None


def too_soon(talk: Talk) -> None:
    """Re-authentication is allowed once a second; the second handshake is an ordinary request, out of place."""
    talk.plain(ALICE)
    assert talk.handshake(PLAIN) == ILLEGAL_STATE
    answer = talk.token(plain("bob", "bob-secret"))
    assert answer is not None
    assert answer.error_code == ILLEGAL_STATE


def not_wanted(talk: Talk, _: World) -> None:
    """With a mechanism without a lifetime there is no re-authentication, and the connection serves large requests."""
    talk.scram(Scram(SCRAM_512, "alice", "alice-secret"))
    assert talk.handshake(SCRAM_512) == ILLEGAL_STATE
    assert talk.metadata(topics=400)


EXCHANGES: dict[str, tuple[Callable[[Talk, World], object], Outcome]] = {
    # PLAIN
    "plain": (lambda t, _: t.plain(ALICE), named("alice")),
    "plain, token v0": (lambda t, _: version(t, 0), named("alice")),
    "plain, token v2": (lambda t, _: version(t, 2), named("alice")),
    "plain, bytes behind v1": (lambda t, _: version(t, 1, b"xyz"), named("alice")),
    "plain, bytes behind v2": (lambda t, _: version(t, 2, b"xyz"), named("alice")),
    "plain, wrong password": (lambda t, _: refused(t, plain("alice", "x")), CLOSED),
    "plain, no password": (lambda t, _: refused(t, plain("alice", "")), CLOSED),
    "plain, unknown user": (lambda t, _: refused(t, plain("carol", "x")), CLOSED),
    "plain, same authzid": (
        lambda t, _: t.plain(plain("alice", "alice-secret", "alice")),
        named("alice"),
    ),
    "plain, other authzid": (
        lambda t, _: refused(t, plain("alice", "alice-secret", "bob")),
        CLOSED,
    ),
    "plain, a NUL too many": (lambda t, _: refused(t, ALICE + b"\0bob"), CLOSED),
    "plain, byte by byte": (byte_by_byte, named("alice")),
    "plain, all at once": (all_at_once, named("alice")),
    # SCRAM
    "scram 256": (lambda t, _: t.scram(Scram(SCRAM_256, "bob", "bob-secret")), named("bob")),
    "scram 512": (lambda t, _: t.scram(Scram(SCRAM_512, "bob", "bob-secret")), named("bob")),
    "scram, wrong password": (
        lambda t, _: scram_refused(t, Scram(SCRAM_256, "alice", "x")),
        CLOSED,
    ),
    "scram, unknown user": (lambda t, _: scram_refused(t, Scram(SCRAM_256, "carol", "x")), CLOSED),
    "scram, same authzid": (
        lambda t, _: t.scram(Scram(SCRAM_256, "alice", "alice-secret", "alice")),
        named("alice"),
    ),
    "scram, other authzid": (
        lambda t, _: scram_refused(t, Scram(SCRAM_256, "alice", "alice-secret", "bob")),
        CLOSED,
    ),
    "scram, escaped name": (
        lambda t, _: t.scram(Scram(SCRAM_256, saslname(STRANGE), "strange-secret")),
        named(STRANGE),
    ),
    "scram, wrong escape": (
        lambda t, _: scram_refused(t, Scram(SCRAM_256, "a=2cb=3dc", "strange-secret")),
        CLOSED,
    ),
    "scram, some extension": (
        lambda t, _: t.scram(Scram(SCRAM_256, "bob", "bob-secret", extensions=",some=thing")),
        named("bob"),
    ),
    "scram, left half way": (left_half_way, CLOSED),
    "scram by token": (
        lambda t, w: t.scram(by_token(w, SCRAM_256)),
        named("alice"),  # it was made through Sluice, which has read its owner
    ),
    "scram by token, 512": (
        lambda t, w: t.scram(by_token(w, SCRAM_512)),
        named("alice"),
    ),
    "scram, a user as token": (
        lambda t, _: scram_refused(
            t, Scram(SCRAM_256, "alice", "alice-secret", extensions=",tokenauth=true")
        ),
        CLOSED,
    ),
    "scram, token or not": (  # the second one counts: the first hides no user
        lambda t, _: t.scram(
            Scram(
                *(SCRAM_256, "bob", "bob-secret"),
                extensions=",tokenauth=true,tokenauth=false",
                signed=",tokenauth=false",
            )
        ),
        named("bob"),
    ),
    # the rest
    "bearer": (
        lambda t, _: after_handshake(t, OAUTH, bearer(unsigned_token("alice", 600))),
        named("alice"),
    ),
    "bearer, expired": (complaint, CLOSED),
    "no such mechanism": (stranger_to_kafka, CLOSED),
    "plain in scram": (lambda t, _: after_handshake(t, SCRAM_256, ALICE), CLOSED),
    "scram in plain": (
        lambda t, _: after_handshake(t, PLAIN, Scram(SCRAM_256, "alice", "").first),
        CLOSED,
    ),
    "no handshake": (lambda t, _: t.token(ALICE), CLOSED),
    "no token": (lambda t, _: t.handshake(PLAIN), CLOSED),
    "asking for versions late": (
        lambda t, _: (t.handshake(PLAIN), t.send(f.request(f.API_VERSIONS, 0, t.next_id()))),
        CLOSED,
    ),
    "two handshakes": (lambda t, _: (t.handshake(PLAIN), t.handshake(PLAIN)), CLOSED),
    # re-authentication
    "again, same user": (
        lambda t, _: again(t, lambda t: t.plain(ALICE) and t.metadata()),
        named("alice"),
    ),
    "again, other user": (
        lambda t, _: again(t, lambda t: refused(t, plain("bob", "bob-secret"))),
        LOST,
    ),
    "again, wrong password": (
        lambda t, _: again(t, lambda t: refused(t, plain("alice", "x"))),
        LOST,
    ),
    "again, other mechanism": (lambda t, _: again(t, another_mechanism), LOST),
    "again, in mid pipeline": (lambda t, _: again(t, in_mid_pipeline), named("alice")),
    "again, too soon": (lambda t, _: again(t, too_soon), named("alice")),
    "again, not wanted": (not_wanted, named("alice")),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_sluice_and_the_broker_agree_on_the_principal(world: World, name: str) -> None:
    """The witness knows the user exactly as the broker does, from its success on and not before."""
    exchange, outcome = EXCHANGES[name]
    earlier = len(world.seen.all())
    with Talk(world.sluice.port) as talk:
        exchange(talk, world)
        token = talk.who()
        assert (token.owner if token is not None else None) == outcome.owner
        assert outcome.owner is not None or talk.is_closed()
        seen = world.seen.of_port(talk.own_port, earlier)
    heard = [each.principal for each in seen]
    before = heard.count(ANONYMOUS)
    assert heard == [ANONYMOUS] * before + [outcome.principal] * (len(heard) - before)
    early = {each.api for each in seen[:before]}
    late = {each.api for each in seen[before:]}
    if outcome.owner is not None:
        assert early == {"SaslHandshake", "SaslAuthenticate"}
        assert "CreateDelegationToken" in late
    elif outcome is LOST:
        assert "Metadata" in late
    assert not talk_of_faults(world.sluice)


def talk_of_faults(sluice: SluiceProcess) -> list[str]:
    """Return the log lines of sessions that ended by a protocol fault or an internal one."""
    words = ("client_protocol", "broker_protocol", "internal", "policy_fault", "principal_changed")
    return [line for line in sluice.said().splitlines() if any(word in line for word in words)]
