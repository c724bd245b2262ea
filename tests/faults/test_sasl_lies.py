"""A broker that accepts every login can change what Sluice does for its own sessions only.

`tests/proxy/core/session/test_session_sasl.py` has the table of wrong replies; here are a
process, its log and its policies.
"""

from __future__ import annotations

import base64
import struct

import pytest

from tests.support import frames as f
from tests.support import sasl
from tests.support.load import await_that
from tests.support.sasl import Scram, plain
from tests.support.sasl_talk import Talk
from tests.support.stub_broker import StubBroker, body_of
from tests.support.witness import install

PASSWORD = "hunter2-3b9c"  # noqa: S105 - a made-up password
ALICE = plain("alice", PASSWORD)
BY_SCRAM = Scram("SCRAM-SHA-256", "alice", PASSWORD)


def yes(request: bytes) -> bytes | None:
    """Accepts every request, and plays SCRAM without knowing any password."""
    key, version, ident = struct.unpack_from(">hhi", request, 4)
    if key == f.SASL_HANDSHAKE:
        return sasl.handshake_reply(ident)
    if key == f.SASL_AUTHENTICATE:
        token = body_of(request)[4:]
        answer = b""
        if token.startswith(b"n,"):
            answer = sasl.SERVER_FIRST
        elif token.startswith(b"c="):
            answer = sasl.SERVER_FINAL
        return sasl.authenticate_reply(ident, answer, version=version)
    if key == f.METADATA:
        return f.metadata_reply(ident, [])
    return None


def as_bob(talk: Talk) -> object:
    return talk.plain(plain("bob", PASSWORD))


def by_scram(talk: Talk) -> object:
    return talk.scram(BY_SCRAM)


def by_ticket(talk: Talk) -> object:
    assert talk.handshake("GSSAPI") == 0
    return talk.token(b"\x60ticket")


@pytest.mark.parametrize("change", [as_bob, by_scram, by_ticket])
def test_a_change_of_principal_ends_that_session_and_no_other(start, tmp_path, change) -> None:
    """The client does not get the reply, the log gives the reason, and another client keeps its principal."""
    variables, seen = install(tmp_path)
    with StubBroker(yes) as stub:
        sluice = start(stub.server, variables=variables)
        with Talk(sluice.port) as other, Talk(sluice.port) as talk:
            other.plain(ALICE)
            assert talk.plain(ALICE) == (0, b"", 0)
            assert talk.metadata()
            assert change(talk) is None
            assert other.metadata()
            assert {each.user for each in seen.of_port(talk.own_port)} == {"ANONYMOUS", "alice"}
            assert seen.of_port(other.own_port)[-1].principal == ("alice", "sasl")
        await_that(lambda: "principal_changed" in sluice.said(), "the log to tell of it")
        assert sluice.said().count("principal_changed") == 1


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
        await_that(lambda: sluice.said().count("session_closed") == 4, "the log to tell of all")
        said = sluice.said() + seen.file.read_text()
        proof = BY_SCRAM.final(sasl.SERVER_FIRST).decode().partition(",p=")[2]
        encoded = base64.b64encode(PASSWORD.encode()).decode()
        assert not [secret for secret in (PASSWORD, encoded, proof) if secret in said]
