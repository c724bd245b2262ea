"""Alerts, runbooks and dashboard name existing metrics, and alerts fire when they should."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from policies.access.policy import Access
from policies.testing import PolicyBench
from proxy.telemetry.metrics.families import MetricKind
from proxy.telemetry.metrics.names import ALL
from tests.support.telemetry.prometheus import program

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "examples" / "monitoring"
RUNBOOKS = "docs/operate/runbooks.md"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
TESTS = yaml.safe_load((FILES / "alerts_test.yaml").read_text("utf-8"))["tests"]
BOARD = json.loads((FILES / "grafana.json").read_text("utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
SELECTOR = re.compile(r"\b((?:sluice|process)_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
LABEL = re.compile(r'(\w+)(?:=~|!=|!~|=)"')
EVERYWHERE = {"job", "instance"}
"""The labels that Prometheus adds to each series."""
ACCESS = PolicyBench(Access, {"rules": [{"who": ["a"], "cluster": ["describe"]}]})
CUSTOM = [metric.spec for metric in ACCESS.host.metrics.by_name.values()]
"""The counters of the policy that has panels of its own."""


def series() -> dict[str, set[str]]:
    """Return every series with its labels."""
    found: dict[str, set[str]] = {}
    for spec in CUSTOM:
        found[f"sluice_custom_{spec.name}_total"] = {*spec.labels, "policy", *EVERYWHERE}
    for metric in ALL:
        labels = {*metric.labels, *EVERYWHERE}
        if metric.kind is MetricKind.HISTOGRAM:
            found |= {f"{metric.name}_{part}": labels for part in ("sum", "count")}
            found[f"{metric.name}_bucket"] = {*labels, "le"}
        else:
            found[metric.name] = labels
    return found


def mistakes(query: str) -> list[str]:
    """Return metrics that do not exist and labels that their metrics do not have."""
    known = series()
    wrong = []
    used: set[str] = set()
    for name, labels in SELECTOR.findall(query):
        used |= known.get(name, set())
        if name not in known:
            wrong.append(name)
        else:
            wrong += [
                f"{name}: {each}" for each in LABEL.findall(labels) if each not in known[name]
            ]
    grouped = {each.strip() for part in GROUPING.findall(query) for each in part.split(",")}
    return wrong + sorted(grouped - used - EVERYWHERE)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *arguments],
        cwd=FILES,
        capture_output=True,
        text=True,
        check=False,
    )


def test_alerts_name_existing_metrics_and_labels() -> None:
    """Each also has a summary, a severity and a link to its runbook."""
    for rule in RULES:
        assert mistakes(rule["expr"]) == []
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert {"summary", "description", "runbook"} == set(rule["annotations"])
        assert rule["annotations"]["runbook"] == f"{RUNBOOKS}#{rule['alert'].lower()}"


def test_each_alert_has_one_runbook_and_each_runbook_its_alert() -> None:
    """The page that lists them names both."""
    runbooks = (ROOT / RUNBOOKS).read_text("utf-8")
    assert re.findall(r"^## (\w+)$", runbooks, re.MULTILINE) == [rule["alert"] for rule in RULES]
    page = (ROOT / "docs" / "operate" / "monitoring.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \|.*\[runbook\]\(([^)]+)\)", page, re.MULTILINE)
    assert listed == [
        (
            rule["alert"],
            rule["labels"]["severity"],
            rule["annotations"]["runbook"].removeprefix("docs/operate/"),
        )
        for rule in RULES
    ]


def test_every_alert_is_tested_with_series() -> None:
    """Each has a time at which it fires and one at which it does not."""
    for rule in RULES:
        (test,) = (each for each in TESTS if each["name"] == rule["alert"])
        fires = [bool(at["exp_alerts"]) for at in test["alert_rule_test"]]
        assert set(fires) == {True, False}, rule["alert"]


def test_prometheus_can_read_rules_and_configuration() -> None:
    """Both pass `promtool check`."""
    checked = promtool("check", "config", "prometheus.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in checked.stdout


def test_alerts_fire_when_they_should_and_not_before() -> None:
    """Prometheus itself plays the series, and the alerts are compared."""
    tested = promtool("test", "rules", "alerts_test.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


# -- the dashboard ------------------------------------------------------------------------------


def test_panels_name_existing_metrics() -> None:
    """Each has a description and a unit, and queries the chosen instances only."""
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    for query in QUERIES:
        assert mistakes(query) == []
        assert all('job=~"$job"' in each for _, each in SELECTOR.findall(query))
        assert set(re.findall(r"\$(\w+)", query)) <= {
            *("job", "instance", "user", "__rate_interval"),
        }


def test_every_metric_of_requests_and_waits_is_on_the_dashboard() -> None:
    """No metric about traffic is missing."""
    shown = " ".join(QUERIES)
    about = ("sluice_request", "sluice_user", "sluice_pool_used", "sluice_purgatory_oldest")
    missing = [m.name for m in ALL if m.name.startswith(about) and m.name not in shown]
    assert missing == []


def test_prometheus_can_read_every_query(tmp_path: Path) -> None:
    """Each is checked as a recording rule, with the variables filled in."""
    filled = [
        re.sub(r"\$(job|instance|user)\b", ".*", query.replace("$__rate_interval", "1m"))
        for query in QUERIES
    ]
    rules = [{"record": f"panel:{n}", "expr": query} for n, query in enumerate(filled)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), "utf-8")
    checked = promtool("check", "rules", "--lint=none", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dashboard_names_no_machine() -> None:
    """The person who imports it chooses the data source."""
    sources = {json.dumps(panel["datasource"], sort_keys=True) for panel in PANELS}
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
    names = [each["name"] for each in BOARD["templating"]["list"]]
    assert names == ["datasource", "job", "instance", "user"]
