"""How policies are found: by the names of installed packages, and by import paths."""

import importlib.metadata
import os
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from policies import discovery, registry
from policies.access.policy import Access
from policies.admission import Admission
from policies.audit import Audit
from policies.fetch_floor import FetchFloor
from policies.limits import Limits
from policies.maintenance import Maintenance
from policies.quota.policy import Quota
from policies.records import RecordRules
from policies.registry import PolicyEntry
from policies.testing import BenchHost

CODE = """
import msgspec
from policies.api import Policy

class Settings(msgspec.Struct, frozen=True):
    level: int = 0

class Mine(Policy):
    Config = Settings

class Other:
    pass

class Outer:
    Inner = Mine
"""


@pytest.fixture
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module on the path that belongs to no package."""
    (tmp_path / "house_rules.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "house_rules", raising=False)


def test_built_in_and_installed_policies_are_found_the_same_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every policy of the group that can be loaded is available under its name."""
    real = importlib.metadata.entry_points(group=discovery.GROUP)
    more = [
        EntryPoint("stranger", "policies.limits:Limits", discovery.GROUP),
        EntryPoint("absent", "policies.limits:Nothing", discovery.GROUP),
        EntryPoint("wrong", "policies.limits:Final", discovery.GROUP),
    ]
    points = EntryPoints([*real, *more])
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points.select(group=group)
    )

    assert discovery.available() == {
        "access": Access,
        "admission": Admission,
        "audit": Audit,
        "fetch_floor": FetchFloor,
        "maintenance": Maintenance,
        "limits": Limits,
        "quota": Quota,
        "records": RecordRules,
        "stranger": Limits,
    }


@pytest.mark.usefixtures("_module")
@pytest.mark.parametrize("use", ["house_rules:Mine", "house_rules:Outer.Inner"])
def test_a_policy_is_used_by_its_import_path(use: str) -> None:
    """Its class needs no package and no entry point; the path is the entry's name unless it has one."""
    (entry,) = registry.build([PolicyEntry(use=use, config={"level": 3})], BenchHost())

    assert entry.name == use
    assert type(entry.policy).__name__ == "Mine"
    assert entry.policy.config.level == 3


@pytest.mark.usefixtures("_module")
@pytest.mark.parametrize(
    ("use", "words"),
    [
        (
            "house_rules:Other",
            "house_rules:Other is the class Other, expected a Policy with a Config",
        ),
        ("house_rules:Nothing", "house_rules:Nothing cannot be imported: AttributeError"),
        ("nowhere:Mine", "nowhere:Mine cannot be imported: ModuleNotFoundError"),
        ("house_rules:", "found 'house_rules:', expected MODULE:CLASS, or an installed policy"),
        (":Mine", "found ':Mine', expected MODULE:CLASS, or an installed policy"),
        ("house rules:Mine", "found 'house rules:Mine', expected MODULE:CLASS"),
    ],
)
def test_an_import_path_that_leads_nowhere_is_named(use: str, words: str) -> None:
    """The problem has the path of the entry, and says what is there or what failed."""
    (problem,) = registry.inspect([PolicyEntry(use=use)])

    assert str(problem).startswith("policies[0].use: ")
    assert words in str(problem)


def test_a_package_that_is_installed_while_the_process_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entry points are read again when a folder of the path has changed, and only then."""
    folder = tmp_path / "late"
    folder.mkdir()
    os.utime(
        folder, (1, 1)
    )  # its change has another time than its creation, however fast the machine
    monkeypatch.syspath_prepend(folder)
    before = discovery.entry_points_by_name()
    assert discovery.entry_points_by_name() is before
    about = folder / "late-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[sluice.policies]\nlate = policies.limits:Limits\n")

    assert discovery.entry_points_by_name().keys() - before.keys() == {"late"}
