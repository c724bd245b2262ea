"""Kafka's spellings of settings are answered with Sluice's own."""

import pytest

from policies.quota.config import QuotaConfig
from policies.validation import SettingsError
from proxy.config.kafka_names import KAFKA_NAMES, find
from proxy.config.sources import load, variables


def problem_of(tmp_path, section: str) -> str:
    """Return what a configuration with this section is told."""
    file = tmp_path / "sluice.yaml"
    file.write_text(f"upstream: {{bootstrap_servers: [kafka:9092]}}\n{section}\n")
    with pytest.raises(SettingsError) as refused:
        load(file, {}, {})
    (problem,) = refused.value.problems
    return str(problem)


@pytest.mark.parametrize("known", KAFKA_NAMES, ids=lambda each: each.kafka)
def test_each_of_our_names_exists(known):
    """A setting of the configuration, or of the policy that the name begins with."""
    paths = {each.path for each in variables().values()} | {"listen.tls.principal.rules"}
    policy, _, key = known.ours.partition(": ")
    if known.ours:
        assert key in QuotaConfig.__struct_fields__ if key else policy in paths
    assert known.ours or known.why


def test_a_setting_of_kafkas_is_answered_with_ours(tmp_path):
    """With any separators, and in any section."""
    wanted = "Kafka's queued.max.request.bytes is memory.queued_max_request_bytes here"
    for section in (
        "queued.max.request.bytes: 1",
        "memory: {queued.max.request.bytes: 1}",
        "limits: {queued_max_request_bytes: 1}",
    ):
        told = problem_of(tmp_path, section)
        assert wanted in told
        assert "did you mean memory.queued_max_request_bytes?" in told


def test_a_setting_without_a_counterpart_says_why(tmp_path):
    """The purge interval is no setting here."""
    told = problem_of(tmp_path, "purgatory: {fetch.purgatory.purge.interval.requests: 100}")
    assert "Kafka's fetch.purgatory.purge.interval.requests has no counterpart: " in told
    assert "did you mean" not in told


def test_a_setting_of_a_policy_names_the_policy(tmp_path):
    """`quota.window.num` at the top level belongs to the policy quota."""
    assert "quota: quota_window_num" in problem_of(tmp_path, "quota.window.num: 5")


def test_other_unknown_keys_are_answered_as_before(tmp_path):
    """By the most similar key."""
    assert find("limits.max_conections") is None
    assert "did you mean" in problem_of(tmp_path, "limitz: {}")
