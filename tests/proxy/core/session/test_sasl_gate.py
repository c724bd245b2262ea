"""A session whose client authenticates to Sluice: what passes, and in which order.

No byte of SASL may reach the broker, and no byte of anything else before success but ApiVersions.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth.sasl_server import FAILURE_DELAY_MS
from proxy.core.errors import CloseReason
from tests.support.core.gated import (
    ACCEPTED,
    ALICE,
    LIFETIME_MS,
    OUR_VERSIONS,
    SHAKEN,
    VERSIONS,
    VERSIONS_REPLY,
    Gated,
)
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import Scram, plain
from tests.support.shell.sasl_service import password_of
from wire.sasl import authenticate_body, authenticate_reply

# --- what passes -------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_a_client_authenticates_and_the_broker_sees_nothing_of_it(chunk: int) -> None:
    """However the stream is cut. Requests from then on are judged under the user."""
    gated = Gated()
    wire = gated.wire.client(VERSIONS, chunk).broker(VERSIONS_REPLY, chunk)
    wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, ALICE), chunk)
    assert wire.to_client == OUR_VERSIONS + SHAKEN
    gated.verify()
    assert wire.to_client == OUR_VERSIONS + SHAKEN + ACCEPTED
    assert wire.to_broker == VERSIONS
    assert gated.speaker() == ("alice", "sasl")
    assert wire.held_bytes == 0


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("token", [ALICE, plain("alice", password_of("alice"), "alice")])
def test_every_version_of_the_token_is_answered_in_its_own(version: int, token: bytes) -> None:
    """The flexible one too, with its tagged headers on both sides. The authzid may be empty or the same."""
    gated = Gated(LIFETIME_MS)
    wire = gated.wire.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, token, version))
    gated.verify()
    body = authenticate_body(version, b"", LIFETIME_MS)
    assert wire.to_client == SHAKEN + f.reply(2, body, tagged=version == 2)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("authzid", ["", "bob"])
def test_scram_is_answered_at_once(mechanism: str, authzid: str) -> None:
    """It needs no thread: its arithmetic is cheap for a server. The user counts with its signature."""
    gated = Gated()
    exchange = Scram(mechanism, "bob", password_of("bob"), authzid)
    wire = gated.wire.client(sasl.handshake(1, exchange.mechanism))
    wire.client(sasl.authenticate(2, exchange.first))
    first = authenticate_reply(wire.to_client[len(SHAKEN) + 8 :], 1).auth_bytes
    assert gated.wire.session.peer.user == "ANONYMOUS"
    wire.client(sasl.authenticate(3, exchange.final(first)))
    assert b"v=" in wire.to_client
    assert gated.checker.done == 0
    assert gated.speaker() == ("bob", "sasl")


def test_requests_after_a_token_wait_until_the_password_is_verified() -> None:
    """Then they pass in order, under the user; nothing of them is read before."""
    gated = Gated()
    token = sasl.authenticate(2, ALICE)
    wire = gated.wire.client(sasl.handshake(1, "PLAIN") + token + f.heartbeat(3) + f.heartbeat(4))
    assert (wire.to_broker, wire.to_client) == (b"", SHAKEN)
    gated.verify()
    assert wire.to_broker == f.heartbeat(3) + f.heartbeat(4)
    assert [peer.user for peer in gated.recorder.peers[-2:]] == ["alice"] * 2
    assert wire.held_bytes == 0


ORDERS = [
    VERSIONS,
    sasl.handshake(1, "PLAIN"),
    sasl.handshake(1, "GSSAPI"),
    sasl.authenticate(2, ALICE),
    sasl.authenticate(2, plain("alice", "x")),
    sasl.authenticate(2, b"n,,n=alice,r=x"),
    f.heartbeat(3),
    f.produce(6),
    f.request(f.API_VERSIONS, 99, 8),
]


@given(st.lists(st.sampled_from(ORDERS), max_size=6), st.lists(st.integers(1, 40), max_size=30))
def test_what_happens_does_not_depend_on_where_a_read_ends(
    requests: list[bytes], cuts: list[int]
) -> None:
    """The same requests, whole and in pieces, have the same replies, forwarded bytes and end."""
    stream = b"".join(requests)
    seen = []
    for sizes in ([len(stream)], cuts):
        gated, at = Gated(), 0
        for size in (*sizes, len(stream)):
            gated.wire.client(stream[at : at + size])
            at += size
        for _ in range(3):
            gated.verify()
            gated.wire.advance(FAILURE_DELAY_MS)
        gated.wire.release()
        outcomes = [outcome for _, outcome in gated.recorder.completed]
        seen.append((gated.wire.to_client, gated.wire.to_broker, gated.reason, outcomes))
        assert gated.wire.held_bytes == 0
        assert len(gated.recorder.completed) == len(gated.recorder.asked)
    assert seen[0] == seen[1]


# --- what does not pass ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_frame",
    [f.heartbeat(1), f.produce(1), f.produce(1, acks=0), sasl.authenticate(1, ALICE)],
    ids=["heartbeat", "produce", "no acks", "token"],
)
@pytest.mark.parametrize("chunk", [5, 1 << 16])
def test_any_other_request_before_success_ends_the_connection(
    request_frame: bytes, chunk: int
) -> None:
    """Without a reply and without a byte to the broker; earlier replies are still sent."""
    gated = Gated()
    wire = gated.wire.client(VERSIONS + request_frame, chunk)
    assert gated.reason is CloseReason.AUTHENTICATION_REQUIRED
    assert wire.to_broker == VERSIONS
    wire.broker(VERSIONS_REPLY)
    assert wire.to_client == OUR_VERSIONS
    assert wire.session.ended


def test_an_unknown_api_does_not_pass_before_success() -> None:
    """Also one that the settings let pass."""
    gated = Gated()
    gated.engine.rewrites.pass_unknown = frozenset({999})
    gated.wire.client(f.request(999, 0, 1))
    assert gated.reason is CloseReason.AUTHENTICATION_REQUIRED
    assert gated.wire.to_broker == b""


def test_requests_are_small_before_success() -> None:
    """A token has the size of its mechanism: those of PLAIN and SCRAM are short. Nothing is kept of a larger one."""
    for frames in (
        f.request(f.API_VERSIONS, 0, 7, bytes(70_000)),
        f.request(f.API_VERSIONS, 99, 7, bytes(70_000)),
        sasl.handshake(1, "PLAIN") + sasl.authenticate(2, bytes(70_000))[:20],
    ):
        gated = Gated()
        gated.wire.client(frames)
        assert gated.reason is CloseReason.CLIENT_PROTOCOL
        assert gated.wire.held_bytes == gated.wire.session.client.unsent_bytes
    gated = Gated()
    gated.sign_in(plain("alice", "x" * 16_000)).advance(FAILURE_DELAY_MS)
    assert gated.reason is CloseReason.AUTHENTICATION_FAILED


def test_a_newer_api_versions_is_answered_before_success() -> None:
    """With the range of versions that is offered: the client asks again."""
    gated = Gated()
    gated.wire.client(f.request(f.API_VERSIONS, 99, 8))
    assert gated.wire.to_client[8:10] == struct.pack(">h", 35)
    assert gated.reason is None
