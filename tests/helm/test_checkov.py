"""`make checkov`: a finding without an explanation fails, and so does an explanation without a finding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.house.house import ROOT

FAILED = [
    *(("CKV_K8S_11", "Deployment.shop.orders"), ("CKV_K8S_15", "Deployment.shop.orders")),
    *(("CKV_K8S_43", "Deployment.shop.orders"), ("CKV_K8S_29", "Deployment.shop.orders")),
    *(("CKV_K8S_8", "Deployment.shop.orders"), ("CKV_K8S_9", "Deployment.shop.orders")),
    *(("CKV_K8S_8", "Pod.shop.orders-sluice-test"), ("CKV_K8S_9", "Pod.shop.orders-sluice-test")),
    *(("CKV2_K8S_6", "Pod.shop.orders.x"), ("CKV2_K8S_6", "Pod.shop.orders-sluice.x")),
]
"""One finding for each explanation."""
OTHER = ("CKV_K8S_20", "Deployment.shop.orders-sluice")


def report(failed: list[tuple[str, str]]) -> str:
    """Return the part of checkov's report that is read."""
    checks = [
        {"check_id": check, "check_name": "a rule", "resource": resource, "file_path": "/a.yaml"}
        for check, resource in failed
    ]
    return json.dumps({"summary": {"passed": 7}, "results": {"failed_checks": checks}})


@pytest.mark.parametrize(
    ("told", "code", "said"),
    [
        (None, 2, "not checked: checkov is not installed"),
        ("", 2, "not checked: no such rule"),
        (report(FAILED), 0, "checked: 7 checks passed, 10 findings are explained"),
        (
            report([*FAILED, OTHER]),
            1,
            "CKV_K8S_20 a rule: Deployment.shop.orders-sluice in /a.yaml",
        ),
        (report(FAILED[1:]), 1, "no finding needs the reason for CKV_K8S_11 .*"),
    ],
    ids=["absent", "broken", "explained", "a finding", "an explanation too many"],
)
def test_only_explained_findings_pass(
    told: str | None, code: int, said: str, tmp_path: Path
) -> None:
    """The program reads checkov's report, and says so where there is none."""
    if told is not None:
        (tmp_path / "told").write_text(told)
        checkov = tmp_path / "checkov"
        checkov.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/told\necho 'no such rule' >&2\n")
        checkov.chmod(0o755)
    ran = subprocess.run(
        [sys.executable, ROOT / "helm" / "checkov"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stdout.strip()) == (code, said), ran.stderr
