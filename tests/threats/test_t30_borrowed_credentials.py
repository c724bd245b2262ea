"""T30: a client that acts by the credentials of Sluice: it makes tokens, logins and rights, or changes the cluster.

The guard stands before the broker: every API, version and kind of resource that it must refuse is sent, and the broker
sees nothing. `tests/integration/test_custody_attacks.py` does the same before a real Kafka.
"""

from policies.chain import Chain
from policies.credential_guard import with_guard
from policies.messages import encode, make_request
from tests.support.core.sessions import Watcher, Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import asking
from tests.support.processes.measured import tell
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, Concern, concern_of
from wire.errors import ErrorCode
from wire.reply_errors import read_errors

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
PASSING_KINDS = {2, 32}


def wire_with_guard() -> Wire:
    engine = make_engine()
    engine.adopt_chain(Chain(with_guard((), ()), Watcher()))
    return Wire(engine)


def sent(api: Api, body: bytes) -> tuple[Wire, dict[object, int]]:
    """Send a request; return the session, and the error codes of the reply if there is one."""
    wire = wire_with_guard()
    tagged = api.request_header_version == 2
    wire.client(f.request(api.key, api.version, 7, body, tagged=tagged))
    reply = wire.to_client
    if not reply:
        return wire, {}
    start = 8 + api.response_header_version
    return wire, dict(read_errors(api, reply, start, len(reply), {}))


def test_no_api_that_concerns_credentials_or_the_cluster_reaches_a_broker() -> None:
    """Each version, with items in its arrays: the reply has the code for all of it, or for each item."""
    guarded = {Concern.CREDENTIALS, Concern.CLIENT_QUOTAS, Concern.CLUSTER}
    tried = [api for api in BY_KEY_AND_VERSION.values() if concern_of(api.key) in guarded]
    answered = 0
    for api in tried:
        known = codec.is_known(api)
        body = codec.encode(asking(codec.request_shape(api))) if known else b""
        wire, codes = sent(api, body)
        assert wire.to_broker == b"", api
        if known:
            assert set(codes.values()) == {REFUSED}, api
            assert not wire.session.ending
        answered += known
    assert len(tried) >= 35
    tell(
        "T30",
        f"{len(tried)} versions of APIs of credentials and cluster: 0 reached the broker, {answered} answered",
    )


def test_no_config_but_of_topics_and_groups_is_changed() -> None:
    """Every number that a kind of resource can have, alone and beside a topic."""
    configs = [a for a in BY_KEY_AND_VERSION.values() if concern_of(a.key) is Concern.CONFIGS]
    tried = 0
    for api in configs:
        for kind in range(-128, 128):
            for kinds in ([kind], [2, kind]):
                resources = [{"resource_type": each, "resource_name": "1"} for each in kinds]
                wire, codes = sent(api, encode(make_request(api, {"resources": resources})))
                assert bool(wire.to_broker) is (kind in PASSING_KINDS), (api, kind)
                if kind not in PASSING_KINDS:
                    assert set(codes.values()) == {REFUSED}
                tried += 1
    tell("T30", f"{tried} kinds of resources: only topics and groups reached the broker")
