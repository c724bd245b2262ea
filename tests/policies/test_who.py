"""Whom an entry is about: the same texts for every policy, found once for each connection."""

from dataclasses import replace

import pytest

from policies import crowd
from policies.api import FORWARD, Peer, Policy, Reject
from policies.crowd import Crowd, members_of, users_of
from policies.limits import Limits, LimitsConfig
from policies.quota.policy import Quota
from policies.records import RecordRules, RecordRulesConfig
from policies.testing import BenchHost, PolicyBench
from policies.validation import try_convert
from policies.who_settings import claim_hints
from tests.support.messages.record_batches import batch

TEAMS = {"billing": ("alice", "svc-*"), "proved": ("tls:alice",)}
ANY = Peer(1, "10.0.0.1", 1)
ALICE = replace(ANY, user="alice", principal_source="sasl", proof="sasl:PLAIN")
TLS = replace(ALICE, principal_source="tls", proof="tls")
SERVICE = replace(ALICE, user="svc-7")
BOB = replace(ALICE, user="bob", client_id="etl-1", groups=frozenset({"ops"}))
UNKNOWN = replace(ANY, user="UNKNOWN", principal_source="unknown")
FALSE_UNKNOWN = replace(ALICE, user="UNKNOWN")
ALL = {
    "any": ANY,
    "alice": ALICE,
    "tls": TLS,
    "service": SERVICE,
    "bob": BOB,
    "unknown": UNKNOWN,
    "false": FALSE_UNKNOWN,
}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ((), ""),
        (("alice",), "alice tls"),
        (("a*",), "alice tls"),
        (("*",), "alice tls service bob false"),
        (("team:billing",), "alice tls service"),
        (("team:proved",), "tls"),
        (("team:ops", "team:nobody"), "bob"),
        (("tls:*",), "tls"),
        (("sasl:svc-*", "client:etl-*"), "service bob"),
        (("ANONYMOUS",), "any"),
        (("UNKNOWN",), "unknown"),
        (("sasl:UNKNOWN",), "false"),
        (("nobody", "bob*"), "bob"),
    ],
)
def test_a_crowd_has_the_clients_that_a_text_fits(texts: tuple[str, ...], names: str) -> None:
    """Without a text nobody, so that a list that is empty by mistake gives no right."""
    found = Crowd(texts, TEAMS)
    assert [name for name, peer in ALL.items() if found.has(peer)] == names.split()
    assert bool(found) == bool(texts)


def test_a_connection_that_becomes_another_client_is_looked_up_again() -> None:
    """What is remembered is of a Peer, and there is a bound to it."""
    found = Crowd(("alice",), {})
    for _ in range(2):
        assert not found.has(ANY)
        assert found.has(ALICE)
        assert not found.has(BOB)


def test_what_a_crowd_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are gone are forgotten with the others."""
    monkeypatch.setattr(crowd, "MAX_REMEMBERED", 10)
    found = Crowd(("alice",), {})
    for session_id in range(100):
        assert found.has(replace(ALICE, session_id=session_id))
        assert len(found._known) <= 10


@pytest.mark.parametrize(
    ("policy", "api", "settings"),
    [
        (Limits, "DeleteTopics", {"forbidden_apis": ["DeleteTopics"]}),
        (RecordRules, "Produce", {"max_records": 1}),
    ],
)
def test_a_connection_that_has_ended_is_forgotten(
    policy: type[Policy], api: str, settings: dict[str, object]
) -> None:
    """By the policy's `on_disconnect`."""
    bench = PolicyBench(policy, {"who": ["bob"], **settings})
    made = bench.policy
    made.on_request(bench.request(api), ALICE, 0)
    assert len(made._who._known) == 1
    made.on_disconnect(ALICE, 0)
    assert not made._who._known


def test_names_alone_are_judged_without_proofs() -> None:
    """A beginning of names fits no client without a name."""
    users = users_of(("mirror", "broker-*", "team:billing"), TEAMS)
    assert [
        n for n in ("mirror", "broker-1", "alice", "svc-1", "bob", "mirrors") if n in users
    ] == [
        "mirror",
        "broker-1",
        "alice",
        "svc-1",
    ]
    everybody = users_of(("*",), {})
    assert "bob" in everybody
    assert "ANONYMOUS" not in everybody
    assert "ANONYMOUS" in users_of(("*", "ANONYMOUS"), {})
    assert "bob" not in users_of((), {})


def test_members_stand_in_the_place_of_their_team() -> None:
    """Each once; a team that the settings do not have has no members."""
    texts = ("bob", "team:billing", "alice", "team:ops")
    assert list(members_of(texts, TEAMS)) == ["bob", "alice", "svc-*"]


def test_a_client_id_has_a_hint() -> None:
    """Any client can name it."""
    found = list(claim_hints(("bob", "client:etl"), {"a": ("client:x", "y")}))
    assert [each.partition(":")[0] for each in found] == ["who[1]", "teams.a[0]"]


def test_limits_are_for_whom_they_name() -> None:
    """Without `who` for all, also for clients without authentication."""
    for texts, names in ((None, list(ALL)), (["team:billing"], ["alice", "tls", "service"])):
        settings = {"forbidden_apis": ["DeleteTopics"], "teams": TEAMS}
        bench = PolicyBench(Limits, settings if texts is None else {**settings, "who": texts})
        request = bench.request("DeleteTopics")
        policy = bench.policy
        verdicts = {name: policy.on_request(request, peer, 0) for name, peer in ALL.items()}
        assert [name for name, each in verdicts.items() if isinstance(each, Reject)] == names
        assert all(isinstance(each, Reject) or each is FORWARD for each in verdicts.values())


def test_records_are_judged_for_whom_they_name() -> None:
    """As limits."""
    bench = PolicyBench(RecordRules, {"max_records": 1, "who": ["bob"]})
    request = bench.request("Produce", topics=("orders",), records=batch(3))
    policy = bench.policy
    assert isinstance(policy.on_request(request, BOB, 0), Reject)
    assert policy.on_request(request, ALICE, 0) is FORWARD


@pytest.mark.parametrize("config", [LimitsConfig, RecordRulesConfig])
def test_a_wrong_text_is_named_by_its_path(config: type) -> None:
    """In `who`, and in the teams."""
    teams = {"t": ["", "team:x"], "ops*": ["a"]}
    _, problems = try_convert(config, {"who": ["a", "b*c"], "teams": teams})
    assert [each.path for each in problems] == ["who[1]", "teams.t[0]", "teams.t[1]", "teams.ops*"]


@pytest.mark.parametrize(
    ("text", "meant"), [("User:eve", "eve"), ("TLS:eve", "tls:eve"), ("Team:ops", "team:ops")]
)
def test_a_text_that_would_be_about_nobody_is_wrong(text: str, meant: str) -> None:
    """A rule that denies something to nobody denies nothing. Kafka writes principals so."""
    _, (problem,) = try_convert(LimitsConfig, {"who": [text]})
    assert problem.nearest == meant
    _, problems = try_convert(LimitsConfig, {"who": ["user:eve", "User", "system:pod:a"]})
    assert not problems


def test_quotas_ask_admins_for_their_proof_and_exempt_by_name() -> None:
    """An admin who must show a certificate alters nothing without; exempt is a user however proved."""
    config, _ = try_convert(
        Quota.Config, {"admins": ["team:proved"], "cluster_principals": ["svc-*"], "teams": TEAMS}
    )
    quota = Quota(config, BenchHost())
    admins = quota._admin._settings.admins
    assert [name for name, peer in ALL.items() if admins.has(peer)] == ["tls"]
    assert [n for n, peer in ALL.items() if quota.manager.is_unlimited(peer.user)] == ["service"]
    assert not list(quota.hints())
