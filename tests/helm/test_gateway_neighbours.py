"""The objects that the gateway makes for others: cert-manager, network policies, the Prometheus operator, Grafana."""

import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.support.house.house import ROOT
from tests.support.kubernetes.chart_files import value_sets
from tests.support.kubernetes.charts import Object
from tests.support.kubernetes.gateway import CHART, SERVER, Release, values

SETS = value_sets(CHART)
(EVERYTHING,) = (each for each in SETS if each.name == "sluice/everything")
MONITORING = ROOT / "examples" / "monitoring"
CUSTOM = yaml.safe_load((Path(__file__).parent / "custom_resources.yaml").read_text("utf-8"))


def test_custom_resources_fit_their_schemas() -> None:
    """No field is unknown to the operators, none that they need is missing, and each kind is made."""
    rendered = set()
    for given in SETS:
        for each in given.objects():
            kind = f"{each['apiVersion']}/{each['kind']}"
            if kind in CUSTOM:
                rendered.add(kind)
                validator = Draft202012Validator({**CUSTOM[kind], "$defs": CUSTOM["$defs"]})
                assert [error.message for error in validator.iter_errors(each["spec"])] == []

    assert rendered == CUSTOM.keys() - {"$defs"}


def test_a_certificate_has_every_name_that_clients_connect_to() -> None:
    """A wildcard serves the brokers if their id is all of the first label, else each has its name."""
    issued: Object = {"enabled": True, "issuerRef": {"name": "ca"}, "dnsNames": ["more.test"]}
    files = {f"{each}_file": f"/etc/sluice/secrets/tls/{each}" for each in ("cert", "key")}

    def names(pattern: str) -> list[str]:
        tls = {**files, "sni_pattern": pattern}
        given = values({"listen": {"nodes": "1-2", "tls": tls}}, certificate=issued)
        return Release(given).one("Certificate")["spec"]["dnsNames"]

    assert names("B$(node).kafka.test") == [SERVER, "*.kafka.test", "more.test"]
    assert names("b.$(node).test") == [SERVER, "b.1.test", "b.2.test", "more.test"]
    plain = Release(values(certificate=issued))
    assert plain.one("Certificate")["spec"]["dnsNames"] == [SERVER, "more.test"]
    assert plain.settings["listen"]["tls"]["cert_file"] == "/etc/sluice/secrets/tls/tls.crt"
    secret = plain.one("Certificate")["spec"]["secretName"]
    mounted = plain.workload["spec"]["template"]["spec"]["volumes"]
    assert secret in [each.get("secret", {}).get("secretName") for each in mounted]


def test_only_sluice_reaches_the_brokers() -> None:
    """Beside the brokers and those that the user names; and only the clients, and the test, reach Sluice."""
    given = EVERYTHING
    release = Release(given.values)
    brokers = release.one("NetworkPolicy", "-brokers")
    among, ours = brokers["spec"]["ingress"]

    assert brokers["metadata"]["namespace"] == "kafka"
    assert among["from"] == [
        {"podSelector": brokers["spec"]["podSelector"]},
        *given.values["networkPolicy"]["brokers"]["alsoFrom"],
    ]
    (peer,) = ours["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "shop"}
    assert peer["podSelector"] == release.workload["spec"]["selector"]
    assert ours["ports"] == [{"protocol": "TCP", "port": 9093}]

    clients, scrapers = release.one("NetworkPolicy", "-sluice")["spec"]["ingress"]
    (ports,) = clients["ports"]
    assert (ports["port"], ports["endPort"]) == (9092, 9098)
    test = release.one("Pod")["metadata"]["labels"]
    assert clients["from"][-1]["podSelector"]["matchLabels"].items() <= test.items()
    assert clients["from"][:-1] == given.values["networkPolicy"]["clients"]
    assert scrapers["ports"] == [{"protocol": "TCP", "port": 9644}]


def test_alerts_and_dashboard_are_the_projects_own() -> None:
    """Nothing is lost or changed on the way; the metrics have the job that the alerts ask for."""
    release = Release(EVERYTHING.values)
    alerts = (MONITORING / "alerts.yaml").read_text("utf-8")

    assert release.one("PrometheusRule")["spec"] == yaml.safe_load(alerts)
    dashboard = release.one("ConfigMap", "-dashboard")["data"]["sluice.json"]
    assert dashboard.rstrip("\n") == (MONITORING / "grafana.json").read_text("utf-8").rstrip("\n")
    (endpoint,) = release.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert set(re.findall(r'job="([^"]*)"', alerts)) == {
        each["replacement"] for each in endpoint["relabelings"] if each["targetLabel"] == "job"
    }
    assert endpoint["port"] in [each["name"] for each in release.container["ports"]]


@pytest.mark.parametrize("kind", ["podMonitor", "serviceMonitor"])
def test_a_monitor_finds_the_pods(kind: str) -> None:
    """By the labels of the pods, or of the Service without an address of its own, which has the port's name."""
    release = Release(values(**{kind: {"enabled": True}}))
    (monitor,) = release.all(kind[0].upper() + kind[1:])
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    if kind == "podMonitor":
        assert wanted <= release.workload["spec"]["template"]["metadata"]["labels"].items()
    else:
        (service,) = (each for each in release.all("Service") if labels(each).items() >= wanted)
        assert service["spec"]["clusterIP"] == "None"
        assert endpoint["port"] in [each["name"] for each in service["spec"]["ports"]]


def labels(found: Object) -> dict[str, str]:
    return found["metadata"]["labels"]
