"""Every pod that a chart makes is safe and complete."""

import pytest

from tests.support.kubernetes.chart_files import ValueSet, value_sets
from tests.support.kubernetes.charts import KUBERNETES, NATIVE_FROM, problems
from tests.support.kubernetes.pods import pods
from tests.support.kubernetes.pods import problems as pod_problems

SETS = value_sets()
SUPPORTED = [v for v in KUBERNETES if tuple(map(int, v.split(".")[:2])) >= NATIVE_FROM]
# The oldest lacks fields, the newest has lost some; the second is the first with another preStop hook.
TRIED = [*SUPPORTED[:2], SUPPORTED[-1]]


@pytest.mark.parametrize("values", SETS, ids=lambda each: each.name)
def test_every_pod_keeps_the_rules(values: ValueSet) -> None:
    """Restricted pod security for each container, probes, resources, a pinned image, no dangling reference."""
    found = values.objects()

    assert pods(found)
    assert pod_problems(found) == []


@pytest.mark.parametrize("version", TRIED)
def test_every_object_fits_the_schema(version: str) -> None:
    """No value set makes a field or a type that this Kubernetes version does not know (custom resources aside)."""
    found = [
        f"{values.name}: {problem}"
        for values in SETS
        for each in values.objects(version)
        if each["apiVersion"].partition("/")[0] not in {"monitoring.coreos.com", "cert-manager.io"}
        for problem in problems(each, version)
    ]

    assert found == []
