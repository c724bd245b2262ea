"""A client id of up to 32,767 bytes is legal in every request, however its bytes arrive."""

from itertools import product

import pytest

from policies.testing.message_builder import request_body
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.every_case import for_each
from tests.support.shell.sasl_service import sasl_server
from wire import apis, codec

LONGEST = "x" * 32_767
KEPT_BYTES = 4 << 10


def long_request(api: apis.Api, ident: int = 7) -> bytes:
    """Return a request of this API with the longest client id and an empty body."""
    body = request_body(api, {}) if codec.is_known(api) else bytes(40)
    tagged = api.request_header_version == 2
    return f.request(api.key, api.version, ident, body, client_id=LONGEST, tagged=tagged)


def newest(key: int) -> apis.Api:
    """Return the newest offered version, which is what clients use."""
    api = apis.find(key, apis.OFFERED[key][1])
    assert api is not None
    return api


@for_each(product(sorted(apis.OFFERED.keys() - {apis.ApiKey.SASL_AUTHENTICATE}), [1 << 20, 4000]))
def test_the_longest_client_id_passes_in_every_request(key, chunk):
    """The broker gets the bytes as they are. (SaslAuthenticate has a test of its own.)"""
    wire = Wire()
    frame = long_request(newest(key))
    wire.client(frame, chunk)
    assert wire.session.ended is False
    assert wire.to_broker == frame
    assert wire.session.peer.client_id == LONGEST


@pytest.mark.parametrize("chunk", [1 << 20, 4000])
def test_it_passes_in_a_sasl_exchange_with_the_broker_and_with_sluice(chunk):
    """The size limits of the exchange concern the bodies."""
    handshake = f.request(apis.ApiKey.SASL_HANDSHAKE, 1, 1, f.string("PLAIN"), client_id=LONGEST)
    token = f.request(
        apis.ApiKey.SASL_AUTHENTICATE,
        1,
        2,
        f.bytes_field(sasl.plain("alice", "alice-secret")),
        client_id=LONGEST,
    )
    wire = Wire()
    wire.client(handshake, chunk).broker(sasl.handshake_reply(1))
    wire.client(token, chunk)
    assert wire.to_broker == handshake + token
    gated = Wire()
    server, checker = sasl_server()
    gated.engine.authenticate_clients(server)
    gated = Wire(gated.engine)
    gated.client(handshake + token, chunk)
    checker.run_all()
    gated.settle()
    assert not gated.session.ended
    assert gated.session.peer.user == "alice"


def test_a_newer_version_of_api_versions_is_answered_with_any_client_id():
    """It is the first request of a newer client."""
    wire = Wire()
    wire.client(f.request(f.API_VERSIONS, 9, 7, bytes(9), client_id=LONGEST, tagged=True))
    assert not wire.session.ended
    assert wire.to_client


@pytest.mark.parametrize("chunk", [1 << 20, 100])
def test_the_limit_of_a_body_holds_beside_any_client_id(chunk):
    """ApiVersions has 4,096 bytes."""
    for client_id in (None, "tests", LONGEST):
        wire = Wire()
        wire.client(f.request(f.API_VERSIONS, 0, 7, bytes(4097), client_id=client_id), chunk)
        assert wire.session.ended
        assert wire.to_broker == b""


def test_a_connection_keeps_no_long_client_id_for_each_api():
    """Such a prefix is not counted in the pool: 90 APIs would keep 3 MB."""
    wire = Wire(make_engine())
    for ident, key in enumerate(sorted(apis.OFFERED)):
        if key not in {apis.ApiKey.SASL_AUTHENTICATE, apis.ApiKey.SASL_HANDSHAKE}:
            wire.client(long_request(newest(key), ident))
    kept = sum(len(plan.prefix) for plan in wire.session.plans.by_kind.values())
    assert kept < KEPT_BYTES
