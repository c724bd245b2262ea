"""T13: no password, token or SCRAM proof is in anything that Sluice writes, at its lowest log level.

Each secret is new in each run. Clients authenticate by every mechanism, with success and without, at the broker
through Sluice and at Sluice itself. `test_no_own_secret_leaks` has the secrets of Sluice itself.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SASL_PLAINTEXT
from tests.support.kafka.kafka_sasl import OAUTH, PLAIN, SCRAMS
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import CANARY, write_users
from tests.support.messages.sasl import FAILED, Scram, bearer, plain, unsigned_token
from tests.support.processes.canaries import Canaries, Loud, forms, loud, new_secret
from tests.support.processes.command_line import invoke, written
from tests.support.shell.token_issuer import AUDIENCE, ISSUER, IdentityProvider
from wire.sasl import AuthenticateReply

USER, PASSWORD = CANARY


@pytest.fixture
def passthrough(kafka_secure: KafkaCluster, tmp_path: Path) -> Iterator[Loud]:
    """Before the broker's own SASL."""
    made = loud(kafka_secure.bootstrap_of(SASL_PLAINTEXT), tmp_path)
    with made.sluice:
        yield made


def accepted(answer: AuthenticateReply | None, *, expected: bool) -> None:
    """Check the outcome of an exchange."""
    assert answer is not None
    assert answer.error_code == (0 if expected else FAILED)


def by_plain(talk: Talk, canaries: Canaries, *, right: bool) -> None:
    """Authenticate by PLAIN."""
    password = PASSWORD if right else new_secret()
    canaries.add(f"password of PLAIN, {right}", password)
    accepted(talk.plain(plain(USER, password)), expected=right)


def by_scram(talk: Talk, canaries: Canaries, mechanism: str, *, right: bool) -> None:
    """Authenticate by SCRAM; the proof is a secret as the password is."""
    password = PASSWORD if right else new_secret()
    canaries.add(f"password of {mechanism}, {right}", password)
    exchange = Scram(mechanism, USER, password)
    assert talk.handshake(mechanism) == 0
    challenge = talk.token(exchange.first)
    assert challenge is not None
    final = exchange.final(challenge.auth_bytes)
    canaries.add(f"proof of {mechanism}, {right}", final.partition(b",p=")[2])
    accepted(talk.token(final), expected=right)


def by_bearer(talk: Talk, canaries: Canaries, *, right: bool) -> None:
    """Authenticate by OAUTHBEARER; a refusal is a challenge first."""
    token = unsigned_token(new_secret(), 3600 if right else -60)
    canaries.add(f"token, {right}", token.split(".")[1])
    assert talk.handshake(OAUTH) == 0
    answer = talk.token(bearer(token))
    if not right:
        accepted(answer, expected=True)
        answer = talk.token(b"\x01")
    accepted(answer, expected=right)


def speak(port: int, canaries: Canaries, mechanism: str, *, right: bool) -> None:
    """Authenticate on a new connection; if that succeeds, ask for a delegation token, whose hmac is a secret too."""
    with Talk(port) as talk:
        if mechanism == PLAIN:
            by_plain(talk, canaries, right=right)
        elif mechanism == OAUTH:
            by_bearer(talk, canaries, right=right)
        else:
            by_scram(talk, canaries, mechanism, right=right)
        if right:
            assert talk.metadata()
            token = talk.who()
            assert token is not None
            if token.hmac:
                canaries.add(f"delegation token of {mechanism}", token.hmac)


def await_closed(made: Loud, sessions: int) -> None:
    """Wait until at least so many sessions have ended, and all that began; a check that it is ready is one too."""

    def closed() -> bool:
        said = made.sluice.said()
        return sessions <= said.count("session_closed") == said.count("session_opened")

    await_that(closed, f"{sessions} closed sessions", said=made.sluice.said)


def test_the_clients_secrets_pass_unseen(passthrough: Loud) -> None:
    """The broker accepts and refuses them; the user and the refusals are written, the secrets are not."""
    for mechanism in (PLAIN, *SCRAMS, OAUTH):
        for right in (True, False):
            speak(passthrough.sluice.port, passthrough.canaries, mechanism, right=right)
    with Talk(passthrough.sluice.port) as talk:  # a secret in the place of a mechanism
        passthrough.canaries.add("mechanism", secret := new_secret())
        assert talk.handshake(secret) != 0
    await_closed(passthrough, 9)
    outputs = passthrough.outputs()

    assert passthrough.canaries.found_in(outputs) == []
    assert len(passthrough.canaries.known) >= 16
    assert sum(USER.encode() in each for each in outputs.values()) >= 3  # or nothing was looked at
    assert any(path.endswith("traces.json") and data for path, data in outputs.items())


def test_the_secrets_of_sluices_own_users_are_kept(
    kafka_secure: KafkaCluster, tmp_path: Path
) -> None:
    """Clients authenticate to Sluice: their passwords and proofs, and the keys of the users file, are nowhere else."""
    write_users(tmp_path / "users", {USER: PASSWORD})
    sasl = {"mechanisms": [PLAIN, *SCRAMS], "users_file": str(tmp_path / "users")}
    made = loud(kafka_secure.bootstrap, tmp_path, listen_settings={"sasl": sasl})
    for place, key in enumerate(
        re.findall(r"[A-Za-z0-9+/]{22,}={0,2}", (tmp_path / "users").read_text())
    ):
        made.canaries.add(f"key {place}", key)
    assert len(made.canaries.known) >= 4
    with made.sluice:
        for mechanism in (PLAIN, *SCRAMS):
            for right in (True, False):
                speak(made.sluice.port, made.canaries, mechanism, right=right)
        await_closed(made, 6)
        outputs = made.outputs()

    assert made.canaries.found_in(outputs) == []
    assert sum(USER.encode() in each for each in outputs.values()) >= 3


def test_the_tokens_of_sluices_own_clients_are_kept(
    kafka_secure: KafkaCluster, tmp_path: Path
) -> None:
    """Clients show tokens to Sluice: no part of a good one, a refused one or one in a broken message is written."""
    with IdentityProvider("ES256") as provider:
        check = {
            "jwks": provider.url("/keys"),
            "issuer": ISSUER,
            "audience": [AUDIENCE],
            "algorithms": ["ES256"],
        }
        sasl = {"mechanisms": [OAUTH], "oauthbearer": check}
        made = loud(kafka_secure.bootstrap, tmp_path, listen_settings={"sasl": sasl})
        with made.sluice:
            for place, claims in enumerate(({}, {"aud": "x"}, {"exp": 1}, {"sub": "a\0"})):
                token = provider.token(USER, **{"jti": new_secret(), **claims})
                for number, part in enumerate(token.split(".")):
                    if number:  # the header is the same in all
                        made.canaries.add(f"part {number} of {place}", part)
                with Talk(made.sluice.port) as talk:
                    assert talk.handshake(OAUTH) == 0
                    answer = talk.token(bearer(token))
                    assert answer is not None
                    if claims:
                        accepted(talk.token(b"\x01"), expected=False)
                    else:
                        assert talk.metadata()
            made.canaries.add("in a broken message", broken := new_secret())
            with Talk(made.sluice.port) as talk:
                assert talk.handshake(OAUTH) == 0
                accepted(talk.token(f"n,,\x01auth=Bearer {broken}\x01".encode()), expected=False)
            await_closed(made, 5)
            outputs = made.outputs()

    assert made.canaries.found_in(outputs) == []
    assert sum(USER.encode() in each for each in outputs.values()) >= 3


@pytest.mark.parametrize("shape", sorted(forms(b"0123456789/abcdef+~=")), ids=lambda s: s.decode())
def test_each_form_of_a_secret_is_found(shape: bytes) -> None:
    """A text that has the secret in this form is told from one that has not."""
    canaries = Canaries()
    canaries.add("it", b"0123456789/abcdef+~=")

    assert canaries.found_in({"log": b"a line with " + shape, "other": b"a line"}) == [
        ("it", "log")
    ]


INLINE: Final = new_secret()
WRONG: Final = ("password", "client_secret", "token")


@pytest.mark.parametrize("key", WRONG)
def test_a_secret_in_the_settings_is_refused_and_not_repeated(key: str, tmp_path: Path) -> None:
    """The error names the key, and not its value."""
    sasl = {"mechanism": "PLAIN", "username": "u", key: INLINE}
    upstream = {"bootstrap_servers": ["127.0.0.1:9"], "sasl": sasl}
    file = written(tmp_path, json.dumps({"upstream": upstream}))
    canaries = Canaries()
    canaries.add("password", INLINE)
    for command in ("check", "config", "run"):
        ran = invoke(command, "-c", file)
        assert ran.exit_code != 0
        assert f"upstream.sasl.{key}" in ran.output
        assert canaries.found_in({command: ran.output_bytes}) == []
