"""Bad values of the library are refused when the application's chart is rendered, with the path of the key."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.kubernetes.chart_examples import APPLICATION
from tests.support.kubernetes.charts import Object, copied, refusal, render

QUOTA = {"use": "quota", "config": {"quotas": [{"user": "x", "request_rate": 1}]}}


def config(**sections: object) -> Object:
    """Return values with these sections of the configuration."""
    return {"config": sections}


def policy(**settings: object) -> Object:
    """Return values with one policy."""
    return config(policies=[{**QUOTA, **settings}])


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"nativSidecar": True}, "", "'nativSidecar' not allowed"),
        ({"nativeSidecar": "yes"}, "/nativeSidecar", "must be one of"),
        ({"image": {"tag": "1.0", "registry": "x"}}, "/image", "'registry' not allowed"),
        ({"image": {"tag": "a b"}}, "/image/tag", "does not match pattern"),
        ({"bootstrapEnvName": "kafka servers"}, "/bootstrapEnvName", "does not match pattern"),
        ({"resources": {"limit": {}}}, "/resources", "'limit' not allowed"),
        ({"resources": {"limits": ["1Gi"]}}, "/resources/limits", "want null or object"),
        ({"secrets": {"Kafka_CA": "x"}}, "/secrets", "'Kafka_CA' not allowed"),
        ({"secretsMode": "0444"}, "/secretsMode", "got string, want integer"),
        ({"probes": {"live": {}}}, "/probes", "'live' not allowed"),
        ({"quotasFile": {"quotas": []}}, "/quotasFile", "got object, want string"),
        (config(upstreams={}), "/config", "'upstreams' not allowed"),
        (config(upstream=None), "/config/upstream", "got null, want object"),
        (
            config(upstream={"bootstrap_servers": []}),
            "/config/upstream/bootstrap_servers",
            "minItems",
        ),
        (
            config(upstream={"bootstrap_servers": ["k"]}),
            "/config/upstream/bootstrap_servers/0",
            "'k'",
        ),
        (config(listen={"port": 70_000}), "/config/listen/port", "maximum"),
        (config(listen={"nodes": "1 to 3"}), "/config/listen/nodes", "anyOf"),
        (config(limits={"max_conections": 1}), "/config/limits", "'max_conections' not allowed"),
        (config(upstream={"tls": {"ca": "x"}}), "/config/upstream/tls", "'ca' not allowed"),
        (policy(mod="observe"), "/config/policies/0", "'mod' not allowed"),
        (policy(config={"burst": 1}), "/config/policies/0/config", "'burst' not allowed"),
        (
            policy(config={"quotas": [{"usr": "x"}]}),
            "/config/policies/0/config/quotas/0",
            "'usr' not allowed",
        ),
        (
            policy(config={"quotas": [{"user": "x", "request_rate": "1"}]}),
            "/config/policies/0/config/quotas/0/request_rate",
            "anyOf",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_bad_value_is_refused(values: Object, path: str, words: str) -> None:
    """Helm names the path of the value and what is wrong with it."""
    told = refusal(copied(APPLICATION), {"sluice": values})

    assert "sluice:\n" in told
    assert f"at '{path}'" in told
    assert words in told


@pytest.mark.parametrize("listen", ["127.0.0.1:9644", "localhost:9644", "[::1]:9644", ""])
def test_an_admin_address_that_cannot_be_probed_is_refused(listen: str) -> None:
    """Kubernetes probes the pod's address, so the chart refuses a loopback address and none."""
    told = refusal(copied(APPLICATION), {"sluice": config(admin={"listen": listen})})

    assert f'config.admin.listen is "{listen}"' in told


def test_a_listener_without_a_host_for_clients_is_refused() -> None:
    """No client can connect to the address that binds all interfaces."""
    told = refusal(copied(APPLICATION), {"sluice": config(listen={"address": "::"})})

    assert "config.listen.advertised_host is empty" in told


@pytest.mark.parametrize("alias", [None, "sluice", "payments"])
def test_values_are_checked_under_each_name(alias: str | None, tmp_path: Path) -> None:
    """Helm checks what stands below the alias of the dependency, or below its own name without one, in each of two."""
    chart = shutil.copytree(copied(APPLICATION), tmp_path / "orders")
    file = chart / "Chart.yaml"
    metadata = yaml.safe_load(file.read_text("utf-8"))
    (first,) = metadata["dependencies"]
    second = {key: value for key, value in first.items() if key != "alias"}
    metadata["dependencies"].append({**second, **({"alias": alias} if alias else {})})
    if alias == first["alias"]:
        metadata["dependencies"].pop(0)
    file.write_text(yaml.safe_dump(metadata), "utf-8")
    name = alias or first["name"]
    good = config(upstream={"bootstrap_servers": ["kafka-1:9092"]})

    assert render(chart, {name: good})
    told = refusal(chart, {name: {"config": {**good["config"], "logs": {}}}})
    assert f"{name}:\n- at '/config': additional properties 'logs' not allowed" in told


def test_a_policy_that_is_not_built_in_may_have_any_settings() -> None:
    """An image may hold policies of its own; `use` names one. Helm gives `global` to every dependency."""
    own = {"use": "client_ids", "config": {"pattern": "^orders-"}}

    values = {"sluice": config(policies=[own]), "global": {"region": "north"}}
    assert render(copied(APPLICATION), values)
