"""The settings of the quota policy: which mistakes are found, and how they are reported."""

import math

import pytest

from policies.quota.config import QuotaConfig
from policies.validation import try_convert


def problems(**settings: object) -> list[str]:
    return [str(each) for each in try_convert(QuotaConfig, settings, "config")[1]]


def test_the_examples_of_the_docs_are_valid():
    """Request rates may be fractions, byte rates are whole; every level is accepted."""
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


def test_without_settings_the_defaults_are_kafkas_and_the_issues():
    """Nothing is limited."""
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
