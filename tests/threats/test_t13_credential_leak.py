"""T13: a password, token or proof in the log, in an error message or in what a policy sees."""

import base64

from tests.support.core.sasl_lies import yes
from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import Scram, plain
from tests.support.plugins.witness import install

PASSWORD = "hunter2-3b9c"  # noqa: S105 - a made-up password
ALICE = plain("alice", PASSWORD)
BY_SCRAM = Scram("SCRAM-SHA-256", "alice", PASSWORD)


def as_bob(talk: Talk) -> object:
    return talk.plain(plain("bob", PASSWORD))


def by_scram(talk: Talk) -> object:
    return talk.scram(BY_SCRAM)


def by_ticket(talk: Talk) -> object:
    assert talk.handshake("GSSAPI") == 0
    return talk.token(b"\x60ticket")


def test_no_secret_is_ever_written(start, tmp_path) -> None:
    """Neither a password nor a proof is logged at any level, in success and in every kind of failure."""
    variables, seen = install(tmp_path)
    with StubBroker(yes) as stub:
        sluice = start(stub.server, variables=variables | {"SLUICE_LOG_LEVEL": "debug"})
        for speak in (as_bob, by_scram, by_ticket):
            with Talk(sluice.port) as talk:
                talk.plain(ALICE)
                speak(talk)
        with Talk(sluice.port) as talk:  # the password where a size, a name or a mechanism belongs
            talk.handshake(PASSWORD)
            talk.token(PASSWORD.encode())
            talk.send(f.request(f.SASL_AUTHENTICATE, 1, 9, PASSWORD.encode()))
            talk.send(f.request(f.SASL_HANDSHAKE, 7, 9, PASSWORD.encode()))
            assert talk.receive() is not None  # the broker's yes to what is no token
            assert talk.is_closed()

        def told_all() -> bool:  # the check that Sluice is ready may be a fifth session
            said = sluice.said()
            return 4 <= said.count("session_closed") == said.count("session_opened")

        await_that(told_all, "the log to tell of all", said=sluice.said)
        said = sluice.said() + seen.file.read_text()
        proof = BY_SCRAM.final(sasl.SERVER_FIRST).decode().partition(",p=")[2]
        encoded = base64.b64encode(PASSWORD.encode()).decode()
        assert not [secret for secret in (PASSWORD, encoded, proof) if secret in said]
