"""`sluice policies`: the installed policies, and the settings of one."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.processes.command_line import invoke


def test_every_installed_policy_is_listed_with_its_package_and_purpose() -> None:
    """One line each, and the same as JSON."""
    told = invoke("policies")
    found = json.loads(invoke("policies", "--json").output)

    assert told.exit_code == 0
    assert [each["policy"] for each in found] == [
        "access",
        "admission",
        "audit",
        "fetch_floor",
        "limits",
        "maintenance",
        "quota",
        "records",
    ]
    assert all(each["from"].startswith("kafka-sluice ") for each in found)
    assert all(each["policy"] in told.output and each["about"] in told.output for each in found)


def test_a_policy_is_shown_with_its_settings() -> None:
    """By its name, or by its import path; as JSON too."""
    by_name = invoke("policies", "limits")

    assert by_name.exit_code == 0
    assert (
        "required_acks: one of 1, all or nothing; default: none\n    The least acks"
        in by_name.output
    )
    assert invoke("policies", "policies.limits:Limits").output == by_name.output
    found = json.loads(invoke("policies", "limits", "--json").output)
    assert ("forbidden_apis", "none") in [(each["name"], each["default"]) for each in found]


def test_a_policy_without_a_docstring_is_shown_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings follow, as those of any other."""
    (tmp_path / "terse_rules.py").write_text(
        "import msgspec\nfrom policies.api import Policy\n"
        "class Terse(Policy):\n    Config = msgspec.defstruct('C', [])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert invoke("policies", "terse_rules:Terse").output == "Terse.\n\nIt has no settings.\n"


def test_an_unknown_policy_is_named_with_the_nearest() -> None:
    """Exit code 2, as for any option."""
    told = invoke("policies", "limts")

    assert told.exit_code == 2
    assert "no policy 'limts' is installed; did you mean limits?" in told.stderr


def test_a_policy_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, the reason on standard error; control characters of the plug-in are escaped."""
    (tmp_path / "broken_rules.py").write_text("raise ValueError('no \\x1b[31m')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_rules", raising=False)
    told = invoke("policies", "broken_rules:Mine")

    assert told.exit_code == 1
    assert "broken_rules:Mine cannot be imported: ValueError: no \\x1b[31m" in told.stderr


def test_files_of_policies_path_are_listed_with_their_errors(tmp_path: Path) -> None:
    """A broken file is a row with its error; the others are listed all the same."""
    (tmp_path / "guard.py").write_text(
        '"""x"""\nimport msgspec\nfrom policies.api import Policy\n'
        "class C(msgspec.Struct):\n    a: int = 1\n"
        'class Guard(Policy):\n    """Guards topics."""\n    Config = C\n'
    )
    (tmp_path / "broken.py").write_text("import nothing_there\n")
    file = tmp_path / "s.yaml"
    file.write_text(f"policies_path: [{tmp_path}]\n")

    found = {
        each["policy"]: each for each in json.loads(invoke("policies", "--json", "-c", file).output)
    }

    assert found["guard"]["about"] == "Guards topics"
    assert found["guard"]["from"] == str(tmp_path / "guard.py")
    assert "broken.py:1 cannot be imported" in found["broken"]["about"]
    assert "a: an integer" in invoke("policies", "guard", "-c", file).output
    assert invoke("policies", "guard").exit_code == 2
