"""The guard of Sluice's own credentials: last in the chain, it refuses what a broker would judge by them."""

import struct
from collections.abc import Collection

import pytest

from policies.api import FORWARD, Policy, Reject, Request, Respond, Verdict
from policies.chain import Chain
from policies.credential_guard import NAME, guarded_apis, with_guard
from policies.hooks import Entry
from policies.messages import encode, make_request
from policies.quota.config import QuotaConfig
from policies.quota.policy import Quota
from policies.testing import BenchHost, BenchReporter, BenchRequest
from tests.support.core.chains import ask
from tests.support.core.sessions import Wire, make_engine
from tests.support.kafka.custody_attacks import BROKER, GROUP, TOPIC, resource
from tests.support.messages import frames as f
from wire.apis import OFFERED, Api, ApiKey, Concern, concern_of, find, known
from wire.errors import ErrorCode


class Answering(Policy):
    """Answers DescribeAcls itself."""

    apis = frozenset({int(ApiKey.DESCRIBE_ACLS)})
    answers = apis

    def on_answer(self, request: Request, peer: object, now_ms: int) -> Respond:
        return Respond(b"")


def guarded(*entries: Entry, forwarded: Collection[int] = ()) -> Chain:
    """Return a chain of these entries and the guard."""
    return Chain(with_guard(entries, forwarded), BenchReporter())


def quota(mode: str = "enforce", **settings: object) -> Entry:
    """Return an entry of the quota policy without limits."""
    policy = Quota(QuotaConfig(quotas=(), **settings), BenchHost())  # type: ignore[arg-type] # the test's own
    return Entry("quota", policy, mode)  # type: ignore[arg-type] # as above


def newest(key: int) -> Api:
    found = find(key, OFFERED[key][1])
    assert found is not None
    return found


def changing(key: int, *kinds: int) -> BenchRequest:
    """Return a request that changes a config of a resource of each of these kinds."""
    api = newest(key)
    fields = {"resources": [resource(kind, "x", "y", "z") for kind in kinds]}
    return BenchRequest(api, body=encode(make_request(api, fields)))


def test_each_api_that_concerns_credentials_or_the_cluster_is_refused_and_hidden() -> None:
    """All but the two that change configs, which also serve topics; those of brokers are refused too."""
    chain = guarded()
    for key in ApiKey:
        on_request = chain.hooks(key).on_request
        if concern_of(key) is Concern.DATA:
            assert on_request is None
        elif concern_of(key) is Concern.CONFIGS:
            assert key not in chain.hidden()
        else:
            api = known(key, OFFERED.get(key, (0, 0))[1])
            assert api is not None
            verdict = ask(chain, BenchRequest(api))
            assert isinstance(verdict, Reject)
            assert verdict.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert not verdict.close
            assert (key in chain.hidden()) == (key in OFFERED)


def test_other_and_named_apis_are_forwarded() -> None:
    """Produce takes the path of a chain without policies; named APIs are offered again, and the others stay refused."""
    hooks, none = guarded().hooks(ApiKey.PRODUCE), Chain((), BenchReporter()).hooks(ApiKey.PRODUCE)
    assert hooks == none

    chain = guarded(forwarded={ApiKey.DESCRIBE_ACLS, ApiKey.ALTER_CONFIGS})
    assert chain.hooks(ApiKey.DESCRIBE_ACLS).on_request is None
    assert chain.hooks(ApiKey.ALTER_CONFIGS).on_request is None
    assert ApiKey.DESCRIBE_ACLS not in chain.hidden()
    assert isinstance(ask(chain, BenchRequest(newest(ApiKey.CREATE_ACLS))), Reject)


@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
@pytest.mark.parametrize(
    ("kinds", "passes"),
    [
        ((TOPIC,), True),
        ((TOPIC, GROUP), True),
        ((BROKER,), False),
        ((TOPIC, BROKER), False),
        ((8,), False),
        ((16,), False),
        ((0,), False),
        ((-1,), False),
        ((), True),
    ],
)
def test_configs_are_judged_by_the_kinds_of_their_resources(
    key: int,
    kinds: tuple[int, ...],
    passes: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Topics and groups pass; one resource of another kind, also of an unknown one, has all refused."""
    verdict = ask(guarded(), changing(key, *kinds))
    if passes:
        assert verdict is FORWARD
    else:
        assert isinstance(verdict, Reject)
        assert verdict.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_request_that_cannot_be_read_ends_the_connection() -> None:
    """A broker might read it otherwise."""
    asked = changing(ApiKey.ALTER_CONFIGS, TOPIC)
    assert asked.body is not None
    asked.body = asked.body[:-3]
    verdict = ask(guarded(), asked)
    assert verdict == Reject(ErrorCode.INVALID_REQUEST, close=True)


def test_an_earlier_policy_may_answer_and_its_apis_are_offered() -> None:
    """A policy says which it answers; what it forwards all the same is refused."""
    chain = guarded(Entry("acls", Answering({}, BenchHost())))
    assert isinstance(ask(chain, BenchRequest(newest(ApiKey.DESCRIBE_ACLS))), Respond)
    assert ApiKey.DESCRIBE_ACLS not in chain.hidden()
    observed = guarded(Entry("acls", Answering({}, BenchHost()), "observe"))
    assert isinstance(ask(observed, BenchRequest(newest(ApiKey.DESCRIBE_ACLS))), Reject)
    assert ApiKey.DESCRIBE_ACLS in observed.hidden()


@pytest.mark.parametrize("forwards", [False, True])
def test_the_client_quotas_of_sluice_are_answered_and_those_of_the_brokers_refused(
    forwards: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Also with `forward_other_keys`, which would change quotas of the brokers in the name of Sluice."""
    chain = guarded(quota(forward_other_keys=forwards, admins=("a",)))
    assert not chain.hidden() & {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}
    api = newest(ApiKey.ALTER_CLIENT_QUOTAS)

    def verdict(key: str) -> Verdict:
        entry = {
            "entity": [{"entity_type": "user", "entity_name": "bob"}],
            "ops": [{"key": key, "value": 1.0}],
        }
        body = encode(make_request(api, {"entries": [entry]}))
        return ask(chain, BenchRequest(api, body=body))

    assert isinstance(verdict("producer_byte_rate"), Respond)
    others = verdict("controller_mutation_rate")
    assert isinstance(others, Reject) is forwards


def test_an_observing_quota_answers_nothing() -> None:
    """Its answers would not be used, so the requests would reach the broker."""
    chain = guarded(quota("observe"))
    assert {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS} <= chain.hidden()


def test_the_names_that_an_operator_may_forward_are_kafkas() -> None:
    """All that is refused and could be offered; nothing that only brokers use."""
    names = guarded_apis()
    assert names["CreateDelegationToken"] == ApiKey.CREATE_DELEGATION_TOKEN
    assert names["IncrementalAlterConfigs"] == ApiKey.INCREMENTAL_ALTER_CONFIGS
    assert not {"Produce", "DescribeConfigs", "UpdateRaftVoter", "Envelope"} & names.keys()


def test_a_session_hides_what_the_guard_refuses_and_answers_it_in_its_own_shape() -> None:
    """ApiVersions leaves it out; a client that asks all the same gets an error, and the connection stays."""
    engine = make_engine()
    engine.adopt_chain(guarded())
    wire = Wire(engine)
    ranges = [(ApiKey.METADATA, 0, 13), (ApiKey.CREATE_DELEGATION_TOKEN, 1, 3), (33, 0, 2)]
    body = struct.pack(">hi", 0, len(ranges)) + b"".join(struct.pack(">hhh", *r) for r in ranges)
    wire.client(f.request(f.API_VERSIONS, 0, 1)).broker(f.reply(1, body))
    kept = {key for key, _, _ in struct.iter_unpack(">hhh", wire.to_client[14:])}
    assert kept == {ApiKey.METADATA, ApiKey.ALTER_CONFIGS}
    seen = len(wire.to_client)
    sent = wire.to_broker
    wire.client(f.request(ApiKey.CREATE_DELEGATION_TOKEN, 1, 2, struct.pack(">iq", 0, 1)))
    assert wire.to_broker == sent
    assert wire.to_client[seen + 4 : seen + 10] == struct.pack(">ih", 2, 31)
    decision = wire.watcher.refused[-1]
    assert (decision.policy, decision.api_name) == (NAME, "CreateDelegationToken")
