"""T20: a package that is replaced or vulnerable.

Every requirement is pinned with hashes (`tests/house/test_locks.py`) and installed with `--require-hashes`. `make sbom`
prints the bill of materials. `make audit` says "not checked", and fails, where there is no data.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.house.house import ROOT
from tests.support.processes.measured import tell

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
ONE = {"name": "trio", "version": "0.30", "vulns": []}
SKIPPED = {"name": "anyio", "skip_reason": "Dependency not found and could not be audited"}
BAD = {"name": "click", "version": "8.1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["9"]}]}


def run(program: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run a program that reads the locks, with this PATH."""
    return subprocess.run(
        [sys.executable, ROOT / program],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("told", "code", "said"),
    [
        (None, 2, "not checked: pip-audit is not installed"),
        ("", 2, "not checked: cannot connect"),
        (json.dumps({"dependencies": [ONE]}), 0, "checked: 1 packages, no known vulnerability"),
        (
            json.dumps({"dependencies": [ONE, SKIPPED]}),
            2,
            "not checked: the service has no data for 1 of 2 packages",
        ),
        (
            json.dumps({"dependencies": []}),
            2,
            "not checked: the service has no data for 0 of 0 packages",
        ),
        (json.dumps({"dependencies": [ONE, BAD, SKIPPED]}), 1, "vulnerable: click PYSEC-1"),
    ],
)
def test_an_audit_without_data_is_not_green(tmp_path: Path, told, code, said) -> None:
    """pip-audit ends with 0 and "No known vulnerabilities found" when its service knows none of the packages."""
    if told is not None:
        (tmp_path / "told").write_text(told)
        auditor = tmp_path / "pip-audit"
        auditor.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/told\necho 'cannot connect' >&2\n")
        auditor.chmod(0o755)
    ran = run("requirements/audit", str(tmp_path))
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (code, said, "")


def test_the_bill_of_materials_names_every_package_with_its_hashes() -> None:
    """A CycloneDX document; the same lock gives the same bytes."""
    lock = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    first, second = run(".build/sbom", ""), run(".build/sbom", "")
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    bill = json.loads(first.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    parts = bill["components"]
    hashes = [h for each in parts for h in each["externalReferences"][0]["hashes"]]
    tell("T20", f"bill of materials: {len(parts)} packages, {len(hashes)} hashes")
    assert len(parts) == len(re.findall(r"(?m)^\S+==", lock)) > 20
    assert len(hashes) == len(HASH.findall(lock))
    assert {each["purl"] for each in parts} == set(bill["dependencies"][0]["dependsOn"])


@pytest.mark.parametrize("file", ["Dockerfile", "Makefile", "README.md"])
def test_every_installation_demands_hashes(file: str) -> None:
    """No line installs a list of requirements without them."""
    lines = (ROOT / file).read_text("utf-8").replace("\\\n", " ").splitlines()
    installs = [line for line in lines if re.search(r"pip install.* -r ", line)]
    assert installs
    assert all("--require-hashes" in line for line in installs)


def test_the_base_of_the_image_is_named_by_its_digest() -> None:
    """A tag can be given to another image; every other stage begins with this base or with nothing."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    (base,) = re.findall(r"(?m)^ARG BASE=(.*)$", text)
    assert re.fullmatch(r"[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}", base)
    stages = re.findall(r"(?m)^FROM (\S+)(?: AS (\S+))?$", text)
    known = {"${BASE}", "scratch"} | {name for _, name in stages if name}
    assert {source for source, _ in stages} <= known
