"""Upgrades of the gateway's chart, and several releases: what must not change, and what must not meet."""

import copy
import re
from typing import Any

import msgspec
import pytest

from proxy.config import Config
from proxy.dynamic_config import LIVE_SETTINGS
from tests.support.kubernetes.chart_files import ValueSet, value_sets
from tests.support.kubernetes.charts import Object
from tests.support.kubernetes.gateway import CHART, Release, values

SETS = value_sets(CHART)
IDS = [each.name.removeprefix("sluice/") for each in SETS]
INSTANCE = "app.kubernetes.io/instance"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LIVE: dict[str, Object] = {
    "policies": {"policies": [{"use": "limits", "config": {"forbidden_apis": ["DeleteTopics"]}}]},
    "policies_path": {"policies_path": ["/etc/sluice/policies"]},
    "limits": {"limits": {"max_connections": 7}},
    "memory.queued_max_request_bytes": {"memory": {"queued_max_request_bytes": 1 << 24}},
    "memory.queued_max_response_bytes": {"memory": {"queued_max_response_bytes": 1 << 24}},
    "memory.upstream_announced_max_bytes": {"memory": {"upstream_announced_max_bytes": 0}},
    "purgatory": {"purgatory": {"silence_ms": 0}},
    "traces.slow_ms": {"traces": {"slow_ms": 5}},
    "traces.sample_every_requests": {"traces": {"sample_every_requests": 5}},
    "traces.max_spans_per_second": {"traces": {"max_spans_per_second": 5}},
    "drain": {"drain": {"timeout_ms": 9000}},
    "log.level": {"log": {"level": "debug"}},
}
"""A change of each setting that Sluice applies while it runs."""
RESTART: list[Object] = [
    {"listen": {"nodes": "0-40"}},
    {"identity": {"user": "shop"}},
    {"upstream": {"bootstrap_servers": ["other:9092"]}},
    {"memory": {"queued_max_requests": 9}},
    {"traces": {"file": "/var/traces"}},
    {"log": {"format": "text"}},
    {"metrics": {"max_users": 3}},
    {"usage_log": {"topic": "usage"}},
    {"audit": {"file": "/var/audit"}},
    {"admin": {"trace_url": "https://traces.test/{trace_id}"}},
    {"pass_unknown_apis": [1000]},
]
"""A change in each section that needs a restart."""


def template(config: Object) -> Any:
    """Return the template of the pods with these settings."""
    return Release(values(config)).workload["spec"]["template"]


@pytest.mark.parametrize("path", LIVE_SETTINGS)
def test_a_change_that_sluice_applies_itself_restarts_no_pod(path: str) -> None:
    """The template stays the same byte for byte, so Kubernetes keeps the pods."""
    section, _, key = path.partition(".")
    base = {section: {}} if key else {}

    assert template(LIVE[path]) == template(base)


@pytest.mark.parametrize("config", RESTART, ids=str)
def test_any_other_change_restarts_the_pods(config: Object) -> None:
    """Else the new settings would wait for the next start, while the Service has the new ports already."""
    assert template(config) != template({})


def test_every_section_is_in_one_of_the_lists() -> None:
    """A new section of the settings has to be tried here."""
    tried = {key for each in (*LIVE.values(), *RESTART) for key in each}

    assert tried == {field.name for field in msgspec.structs.fields(Config)}


def test_every_change_of_settings_can_roll_the_pods() -> None:
    """`rolloutOnConfigChange` is for users who prefer that."""
    live = LIVE["policies"]
    one, other = (Release(values(each, rolloutOnConfigChange=True)) for each in ({}, live))

    assert one.workload["spec"]["template"] != other.workload["spec"]["template"]


@pytest.mark.parametrize("given", SETS, ids=IDS)
def test_the_immutable_fields_stay_over_an_upgrade(given: ValueSet) -> None:
    """Another version of the image, other labels, ports, policies and resources change no selector and no name."""
    changed = copy.deepcopy(given.values)
    changed["config"]["policies"] = [{"use": "limits"}]
    changed["image"] = {"tag": "9.9.9"}
    changed["commonLabels"] = {"team": "other"}
    changed["podLabels"] = {"team": "other"}
    changed["resources"] = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    before, after = Release(given.values), Release(changed)

    assert names(before) == names(after)
    for key in ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"):
        assert before.workload["spec"].get(key) == after.workload["spec"].get(key)


def names(release: Release) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of every object."""
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in release.objects
    }


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("override", ["", "n" * 63], ids=["", "a long name"])
def test_names_are_valid_however_long_the_releases_is(kind: str, override: str) -> None:
    """Labels have 63 characters at most; a StatefulSet's name has 52, because Kubernetes appends a hash to it."""
    given = values(
        kind=kind,
        nameOverride=override,
        certificate={"enabled": True, "issuerRef": {"name": "ca"}},
        serviceMonitor={"enabled": True},
        grafanaDashboard={"enabled": True},
        prometheusRule={"enabled": True},
        autoscaling={"enabled": True},
        networkPolicy={"enabled": True, "brokers": {"podSelector": {"matchLabels": {"a": "b"}}}},
        usageLogVolume={"kind": "claim" if kind == "StatefulSet" else "emptyDir"},
    )
    long = "r" * 52
    one, other = Release(given, name=f"{long}a"), Release(given, name=f"{long}b")

    for each in one.objects:
        assert len(each["metadata"]["name"]) <= (52 if each["kind"] == "StatefulSet" else 63)
        assert LABEL.fullmatch(each["metadata"]["name"])
        assert all(len(value) <= 63 for value in each["metadata"]["labels"].values())
    assert not names(one) & names(other)
    assert len(names(one)) == len(one.objects)


@pytest.mark.parametrize("given", SETS, ids=IDS)
def test_every_selector_finds_the_pods_of_its_release_only(given: ValueSet) -> None:
    """Not those of another release in the same namespace, nor the pod of the test."""
    here, there = (Release(given.values, name=each) for each in ("orders", "bills"))
    ours = here.workload["spec"]["template"]["metadata"]["labels"]
    others = [
        there.workload["spec"]["template"]["metadata"]["labels"],
        *(each["metadata"]["labels"] for each in here.all("Pod")),
    ]
    selectors = [here.workload["spec"]["selector"]["matchLabels"]]
    selectors += [each["spec"]["selector"] for each in here.all("Service")]
    selectors += [
        each["spec"]["selector"]["matchLabels"] for each in here.all("PodDisruptionBudget")
    ]
    selectors += [
        each["spec"]["podSelector"]["matchLabels"]
        for each in here.all("NetworkPolicy")
        if not each["metadata"]["name"].endswith("-brokers")
    ]
    for selector in selectors:
        assert selector.items() <= ours.items()
        assert not any(selector.items() <= each.items() for each in others)


def test_a_release_may_be_called_by_a_number() -> None:
    """Names and labels are texts, also where YAML would read a number or a truth value."""
    for name in ("123", "1e3", "true", "null"):
        release = Release(values(), name=name, namespace=name)
        for each in release.objects:
            assert all(isinstance(value, str) for value in each["metadata"]["labels"].values())
        assert release.workload["spec"]["selector"]["matchLabels"][INSTANCE] == name


def test_two_releases_share_no_name() -> None:
    """Both can be installed into one namespace; a release called like the chart has the short name."""
    (given,) = (each for each in SETS if each.name == "sluice/everything")
    one, other = (Release(given.values, name=each) for each in ("orders", "sluice"))

    assert not names(one) & names(other)
    assert other.one("Service")["metadata"]["name"] == "sluice"
