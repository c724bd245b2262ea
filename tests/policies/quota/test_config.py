"""The settings of the quota policy: which mistakes are found, the quotas file, and limits without effect."""

import math

import pytest

from policies.api import PolicyConfigError
from policies.quota.config import MAX_HINTS, QuotaConfig, QuotaLine, QuotaRule, ineffective_limits
from policies.quota.entity import DEFAULT_NAME, ClientQuotas, QuotaEntity
from policies.quota.policy import Quota
from policies.quota.quota_file import MAX_PROBLEMS
from policies.testing import BenchHost
from policies.validation import SettingsError, try_convert


def problems(**settings: object) -> list[str]:
    return [str(each) for each in try_convert(QuotaConfig, settings, "config")[1]]


def test_the_examples_of_the_docs_and_the_defaults_are_valid():
    """Request rates may be fractions, byte rates are whole; every level is accepted. By default nothing is limited."""
    lines = [
        {"user": "alice", "request_rate": 100},
        {"client_id": "noisy", "request_rate": 50.5, "producer_byte_rate": 1048576},
        {"user": "alice", "client_id": "report", "consumer_byte_rate": 20},
        {"user": "<default>", "client_id": "<default>", "request_rate": 1000},
    ]
    config, wrong = try_convert(QuotaConfig, {"quotas": lines}, "config")
    assert wrong == []
    assert [list(line.limits()) for line in config.quotas] == [
        [("request_rate", 100)],
        [("request_rate", 50.5), ("producer_byte_rate", 1048576)],
        [("consumer_byte_rate", 20)],
        [("request_rate", 1000)],
    ]

    config = QuotaConfig()
    assert (config.enforcement, config.coexistence, config.quotas) == ("entity", "sequential", ())
    assert (config.burst_seconds, config.quota_window_num) == (2, 11)
    assert (config.quota_window_size_seconds, config.max_default_buckets) == (1, 10_000)


@pytest.mark.parametrize(
    ("line", "path", "words"),
    [
        ({"request_rate": 1}, "quotas[0]", "found no entity, expected user, client_id, or both"),
        ({"user": "a"}, "quotas[0]", "found no limit, expected at least one of request_rate"),
        ({"user": "", "request_rate": 1}, "quotas[0].user", "must not be empty"),
        ({"user": "x" * 2000, "request_rate": 1}, "quotas[0].user", "1024 characters"),
        ({"user": "a", "request_rate": 0}, "quotas[0].request_rate", "found 0.0, expected a limit"),
        ({"user": "a", "request_rate": -5}, "quotas[0].request_rate", "greater than 0"),
        ({"user": "a", "request_rate": math.nan}, "quotas[0].request_rate", "finite"),
        ({"user": "a", "request_rate": "5"}, "quotas[0].request_rate", "a number above 0"),
        ({"user": "a", "producer_byte_rate": 1.5}, "quotas[0].producer_byte_rate", "whole number"),
        ({"user": "a", "request_rat": 5}, "quotas[0].request_rat", "did you mean request_rate?"),
        ({"client": "a", "request_rate": 5}, "quotas[0].client", "did you mean client_id?"),
    ],
)
def test_an_impossible_line_is_refused_by_its_path(line, path, words):
    """The message has the value, the expectation and the nearest key."""
    found = problems(quotas=[line])
    assert any(each.startswith(f"config.{path}: ") and words in each for each in found), found


TEAMS = {"billing": ["alice", "svc-billing"], "mirrors": ["mirror-*"], "proved": ["tls:alice"]}


def test_each_user_of_a_rule_has_its_limit() -> None:
    """A user who is named twice in one rule has it once; the client id of a rule is that of each."""
    config, found = try_convert(
        QuotaConfig,
        {
            "quotas": [
                {"who": ["bob", "team:billing", "alice"], "request_rate": 5},
                {"who": ["bob"], "client_id": "etl", "request_rate": 2},
                {"user": "<default>", "request_rate": 100},
            ],
            "teams": TEAMS,
        },
    )
    assert found == []
    assert config is not None
    quotas = Quota(config, BenchHost()).quotas
    limits = {(each.entity.user, each.entity.client_id): each.value for each in quotas}
    assert limits == {
        **{(user, None): 5.0 for user in ("bob", "alice", "svc-billing")},
        ("bob", "etl"): 2.0,
        ("<default>", None): 100.0,
    }


@pytest.mark.parametrize(
    ("who", "path", "words"),
    [
        (["analyst-*"], "who[0]", "a user by the whole name, or a team of such"),
        (["bob", "tls:alice"], "who[1]", "however proved"),
        (["client:etl"], "who[0]", "however proved"),
        (["team:mirrors"], "who[0]", "which has 'mirror-*', expected a user by the whole name"),
        (["team:proved"], "who[0]", "which has 'tls:alice'"),
        (["team:biling"], "who[0]", "did you mean team:billing?"),
        (["<default>"], "who[0]", "expected user: <default>"),
        ([""], "who[0]", "expected a user"),
    ],
)
def test_a_rule_is_of_whole_users(who: list[str], path: str, words: str) -> None:
    """A limit counts for an entity as in Kafka: its books know neither proofs nor beginnings of names."""
    (found,) = problems(quotas=[{"who": who, "request_rate": 1}], teams=TEAMS)
    assert found.startswith(f"config.quotas[0].{path}: ")
    assert words in found


def test_a_rule_of_several_users_keeps_the_laws_of_a_line() -> None:
    """One limit for an entity, at least one limit, and no `user` beside `who`."""
    rule = {"who": ["team:billing"], "request_rate": 1}
    (found,) = problems(quotas=[rule, {"user": "alice", "request_rate": 2}], teams=TEAMS)
    assert found.startswith("config.quotas[1].request_rate: found a second limit")
    (found,) = problems(quotas=[{"who": ["alice"]}])
    assert "no limit" in found
    (found,) = problems(quotas=[{"who": ["alice"], "user": "bob", "request_rate": 1}])
    assert found.startswith("config.quotas[0].user: found 'bob', expected nothing")


def test_exempt_users_are_found_by_name_and_admins_by_proof() -> None:
    """So a rule that asks for a proof cannot be written where it would count for nothing."""
    for settings in (
        {"cluster_principals": ["mirror", "broker-*", "team:mirrors"], "admins": ["tls:ops"]},
        {"admins": ["team:proved", "client:console"]},
    ):
        assert problems(**settings, teams=TEAMS) == []
    (found,) = problems(cluster_principals=["tls:mirror"])
    assert found.startswith("config.cluster_principals[0]: found 'tls:mirror', expected a user, or")
    (found,) = problems(admins=["ops*x"])
    assert found.startswith("config.admins[0]: ")


def test_a_limit_given_twice_is_a_mistake():
    """Two keys of one entity in two lines are no mistake."""
    first = {"user": "a", "request_rate": 1}
    assert problems(quotas=[first, {"user": "a", "producer_byte_rate": 1}]) == []
    (found,) = problems(quotas=[first, {"user": "a", "client_id": "c", "request_rate": 2}, first])
    assert found.startswith("config.quotas[2].request_rate: found a second limit, expected")
    assert found.endswith("quotas[0] sets it already")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enforcement", "user"),
        ("coexistence", "sum"),
        ("burst_seconds", -1),
        ("quota_window_num", 1),
        ("quota_window_size_seconds", 0),
        ("max_default_buckets", 0),
        ("cluster_principals", "broker"),
        ("replicas", 0),
    ],
)
def test_settings_out_of_bounds_are_refused(key, value):
    """Each is named by its own path."""
    (found,) = problems(**{key: value})
    assert found.startswith(f"config.{key}: found ")


QUOTAS = b"""
version: 1
source: {tables: here}
quotas:
- {user: alice, request_rate: 100, consumer_byte_rate: 7, evidence: {request_rate: {p99: 3}}}
- {user: bob, request_rate: 0.5}
"""


def test_limits_of_the_quotas_file_hold_below_those_of_the_configuration() -> None:
    """Limit by limit; the file's names and its evidence change nothing."""
    host = BenchHost(files={"q": QUOTAS})
    lines = (QuotaRule(user="alice", request_rate=9),)
    quotas = Quota(Quota.Config(quotas=lines, quotas_file="q"), host).quotas
    assert [(each.entity.user, *each[1:]) for each in quotas] == [
        ("alice", "request_rate", 9.0, "file"),
        ("alice", "consumer_byte_rate", 7.0, "quotas_file"),
        ("bob", "request_rate", 0.5, "quotas_file"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "quotas_file: 'q' cannot be read: No such file or directory"),
        (b"version: 2", "quotas_file: version (q:1): found 2, expected 1, the latest"),
        (
            b"version: 1\nquotas: [{user: a, rate: 1}]",
            "quotas_file: quotas[0].rate (q:2): found an",
        ),
    ],
)
def test_a_quotas_file_that_cannot_be_used_is_refused(content: bytes | None, words: str) -> None:
    """The message names the setting, the place in the file and what is expected."""
    host = BenchHost(files={} if content is None else {"q": content})
    with pytest.raises((PolicyConfigError, SettingsError)) as caught:
        Quota(Quota.Config(quotas_file="q"), host)
    assert str(caught.value).startswith(words)


def test_of_a_quotas_file_with_many_mistakes_some_are_reported() -> None:
    """Thousands of messages would hide the others."""
    host = BenchHost(files={"q": b"version: 1\nquotas: [" + b"{user: a}, " * 500 + b"]"})
    with pytest.raises(SettingsError) as caught:
        Quota(Quota.Config(quotas_file="q"), host)
    assert len(caught.value.problems) == MAX_PROBLEMS


OUTRANKED = (
    "it holds for no client: the request_rate of {user: <default>} outranks it for every client "
    "(Kafka's order: user and client id, user, client id)"
)


def hints_of(lines: list[QuotaLine], in_file: dict[QuotaEntity, float]) -> list[str]:
    quotas = ClientQuotas()
    for line in lines:
        for key, value in line.limits():
            quotas.set(line.entity, key, value)
    for entity, rate in in_file.items():
        quotas.set(entity, "request_rate", rate, "quotas_file")
    return list(ineffective_limits(tuple(enumerate(lines)), quotas))


def test_a_limit_that_another_file_outranks_is_named() -> None:
    """Either file may have the limit that wins."""
    everyone, noisy = QuotaEntity(DEFAULT_NAME), QuotaEntity(client_id="noisy")
    lines = [QuotaLine(client_id="noisy", request_rate=1)]
    assert hints_of(lines, {everyone: 5}) == [f"quotas[0].request_rate: {OUTRANKED}"]
    lines = [QuotaLine(user=DEFAULT_NAME, request_rate=1)]
    assert hints_of(lines, {noisy: 5}) == [
        f"quotas_file: the request_rate of {{client_id: noisy}}: {OUTRANKED}"
    ]


def test_a_limit_that_both_files_set_is_named() -> None:
    """The configuration's holds; a default and a name beside it both have their clients."""
    lines = [QuotaLine(user="bob", request_rate=1), QuotaLine(user="alice", request_rate=1)]
    assert hints_of(lines, {QuotaEntity("alice"): 5, QuotaEntity("carol"): 5}) == [
        (
            "quotas_file: the request_rate of {user: alice} has no effect: quotas[1] sets it too, and the "
            "configuration wins"
        )
    ]
    assert not hints_of([QuotaLine(user=DEFAULT_NAME, request_rate=1)], {QuotaEntity("alice"): 5})


def test_of_many_limits_some_are_named_and_the_others_counted() -> None:
    """A generated file may have thousands."""
    lines = [QuotaLine(user=DEFAULT_NAME, request_rate=1)]
    found = hints_of(lines, {QuotaEntity(client_id=str(n)): 1 for n in range(MAX_HINTS + 7)})
    assert len(found) == MAX_HINTS + 1
    assert found[-1].startswith("quotas_file: 7 more of its limits")
