"""The library chart in an application's Deployment: which container it is, and what the application gets of it."""

from typing import Any

import pytest
import yaml

from tests.support.kubernetes.chart_examples import APPLICATION
from tests.support.kubernetes.charts import (
    KUBERNETES,
    LIBRARY,
    Object,
    copied,
    objects,
    problems,
    refusal,
    render,
)
from tests.support.kubernetes.pods import Pod, pods

OLD = [version for version in KUBERNETES if version < "1.29"]
NEW = [version for version in KUBERNETES if version >= "1.29"]


def application(values: Object | None = None, **options: Any) -> list[Object]:
    """Return the objects of the example application with these values of Sluice."""
    return objects(render(copied(APPLICATION), {"sluice": values or {}}, **options))


def pod(values: Object | None = None, **options: Any) -> Pod:
    """Return the application's pod."""
    (found,) = pods(application(values, **options))
    return found


def bootstrap(values: Object) -> tuple[str, str]:
    """Return the variable that the application gets."""
    (own,) = pod(values).spec["containers"]
    return own["env"][0]["name"], own["env"][0]["value"]


@pytest.mark.parametrize("version", [NEW[0], NEW[-1]])
def test_from_1_29_on_it_is_a_native_sidecar(version: str) -> None:
    """An init container that Kubernetes keeps running; the schema of that version knows every field."""
    found = application(kube_version=version)
    (sidecar,) = pods(found)[0].spec["initContainers"]

    assert (sidecar["name"], sidecar["restartPolicy"]) == ("sluice", "Always")
    assert [each["name"] for each in pods(found)[0].spec["containers"]] == ["orders"]
    assert [problem for each in found for problem in problems(each, version)] == []


@pytest.mark.parametrize("version", [OLD[0], OLD[-1]])
def test_before_1_29_it_is_a_plain_container(version: str) -> None:
    """A container beside the application's, without a field that the old version does not know."""
    found = application(kube_version=version)
    spec = pods(found)[0].spec

    assert [each["name"] for each in spec["containers"]] == ["orders", "sluice"]
    assert "initContainers" not in spec
    assert "restartPolicy" not in spec["containers"][1]
    assert [problem for each in found for problem in problems(each, version)] == []


@pytest.mark.parametrize(
    ("version", "is_native"),
    [("v1.29.4-eks-1234567", True), ("v1.30.1-gke.100", True), ("v1.28.9+k3s1", False)],
)
def test_versions_of_vendors_count(version: str, *, is_native: bool) -> None:
    """A suffix of the vendor does not change which container it is."""
    assert ("initContainers" in pod(kube_version=version).spec) is is_native


@pytest.mark.parametrize(
    ("choice", "version", "is_native"), [(False, "1.33.0", False), (True, "1.28.0", True)]
)
def test_the_choice_may_be_made_by_hand(choice: bool, version: str, is_native: bool) -> None:  # noqa: FBT001 - parameters of a test
    """`nativeSidecar` true or false counts, not the version."""
    assert (
        "initContainers" in pod({"nativeSidecar": choice}, kube_version=version).spec
    ) is is_native


def test_both_shapes_are_the_same_container() -> None:
    """Only `restartPolicy` tells them apart."""
    native = pod(kube_version="1.33.0").proxy()
    plain = pod(kube_version="1.28.0").proxy()

    assert native == {**plain, "restartPolicy": "Always"}


def test_nothing_delays_or_hastens_its_end() -> None:
    """There is no preStop: it would run when the pod's end begins, before the application's last flush."""
    assert "lifecycle" not in pod().proxy()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "127.0.0.1:19092"),
        ({"listen": {"port": 9092}}, "127.0.0.1:9092"),
        ({"listen": {"address": "::1"}}, "[::1]:19092"),
        ({"listen": {"address": "::", "advertised_host": "localhost"}}, "localhost:19092"),
    ],
)
def test_the_application_gets_the_bootstrap_address(config: Object, expected: str) -> None:
    """The variable holds the host that clients are told to connect to, and the bootstrap port."""
    assert bootstrap({"config": config}) == ("KAFKA_BOOTSTRAP_SERVERS", expected)


@pytest.mark.parametrize(
    "text",
    [
        *("on", "no", "y", "~", "null", "1:30", "0o17", "017", "0x1F", "1_000", "1e3", ".inf"),
        *("2024-01-01", "a: b", "a #b", "- a", "&a", "*a", "|", "---", "...", "!!str x", "%x"),
        *("trailing ", "  leading", "\ttab", "a\n  b\nc\n", "a\r\nb", "'", '"', "\\", "é", "😀"),
        *("{{ .Values.image }}", '{{ fail "x" }}'),
    ],
)
def test_a_text_of_the_configuration_stays_a_text(text: str) -> None:
    """Sluice reads what the user wrote: no text turns into a number, a date, a mapping or a template."""
    config = application({"config": {"identity": {"user": text}}})[-1]["data"]["sluice.yaml"]

    assert yaml.safe_load(config)["identity"] == {"user": text}


def test_the_variable_may_have_another_name() -> None:
    """`bootstrapEnvName` is the name that the application reads."""
    assert bootstrap({"bootstrapEnvName": "BROKERS"})[0] == "BROKERS"


def test_the_memory_limit_is_that_of_its_own_container() -> None:
    """The downward API gives the limit of Sluice's container, in bytes."""
    proxy = pod().proxy()
    (variable,) = (each for each in proxy["env"] if each["name"] == "SLUICE_MEMORY_LIMIT_BYTES")

    assert variable["valueFrom"]["resourceFieldRef"] == {
        "containerName": proxy["name"],
        "resource": "limits.memory",
        "divisor": "1",
    }


def test_probes_ask_the_admin_port_of_the_configuration() -> None:
    """A changed `admin.listen` moves the port of the probes; the paths are those of the admin server."""
    proxy = pod({"config": {"admin": {"listen": "[::]:9700"}}}).proxy()
    (port,) = proxy["ports"]

    assert (port["name"], port["containerPort"]) == ("sluice-admin", 9700)
    assert {
        kind: proxy[kind]["httpGet"]["path"]
        for kind in ("startupProbe", "livenessProbe", "readinessProbe")
    } == {"startupProbe": "/startup", "livenessProbe": "/live", "readinessProbe": "/ready"}


def test_a_changed_configuration_rolls_out_only_if_asked() -> None:
    """The pod's annotations follow the configuration with `rolloutOnConfigChange`, else the pod stays the same."""

    def template(**values: Any) -> Object:
        return application(values)[0]["spec"]["template"]

    one, other = ({"drain": {"timeout_ms": number}} for number in (1, 2))

    assert template(config=one) == template(config=other)
    rolled = [template(config=each, rolloutOnConfigChange=True) for each in (one, other)]
    assert rolled[0]["metadata"]["annotations"] != rolled[1]["metadata"]["annotations"]


def test_a_quota_file_is_mounted_beside_the_configuration() -> None:
    """It has its text, and only a rollout at each change depends on it; a setting that names it needs it."""
    policies = [{"use": "quota", "config": {"quotas_file": "/etc/sluice/config/quotas.yaml"}}]
    values: Object = {"config": {"policies": policies}, "quotasFile": "version: 1\nquotas: []\n"}
    *_, config_map = (each for each in application(values) if each["kind"] == "ConfigMap")
    assert config_map["data"].keys() == {"sluice.yaml", "quotas.yaml"}
    assert config_map["data"]["quotas.yaml"] == values["quotasFile"]

    other = {**values, "quotasFile": "version: 1\nquotas: [] # other\n"}
    for rolls in (True, False):
        one, two = (
            application({**each, "rolloutOnConfigChange": rolls})[0]["spec"]["template"]
            for each in (values, other)
        )
        assert (one != two) is rolls
    assert "quotasFile: found nothing" in refusal(
        copied(APPLICATION), {"sluice": {**values, "quotasFile": ""}}
    )


def test_the_defaults_are_named_after_the_version() -> None:
    """Chart, image and project have one version."""
    chart = yaml.safe_load((LIBRARY / "Chart.yaml").read_text("utf-8"))
    values = yaml.safe_load((LIBRARY / "values.yaml").read_text("utf-8"))
    project = (LIBRARY.parents[1] / "pyproject.toml").read_text("utf-8")

    assert chart["version"] == chart["appVersion"] == values["image"]["tag"]
    assert f'\nversion = "{chart["version"]}"\n' in project


def test_a_second_sidecar_has_names_of_its_own() -> None:
    """`nameOverride` separates the ConfigMaps of two aliases in one release; a release may be called sluice."""
    names = [
        application(values, release=release)[-1]["metadata"]["name"]
        for values, release in (({}, "shop"), ({"nameOverride": "audit"}, "shop"), ({}, "sluice"))
    ]

    assert names == ["shop-sluice", "shop-audit", "sluice"]
