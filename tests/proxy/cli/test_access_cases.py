"""`sluice access test`: each failed case is named with its line, and the exit code says whether there is one."""

from pathlib import Path

import pytest
from click.testing import Result

from tests.support.processes.command_line import invoke, written

RULES = """\
upstream: {bootstrap_servers: [kafka-1:9092]}
policies:
- use: access
  config:
    rules:
    - {who: [a], topics: {t: [read]}}
    - {who: [tls:b], groups: {g: [read]}}
"""


def run(folder: Path, cases: str) -> Result:
    file = folder / "cases.yaml"
    file.write_text(cases, "utf-8")
    return invoke("access", "test", "-c", written(folder, RULES), file)


def test_cases_that_hold_pass(tmp_path: Path) -> None:
    """Nothing but the count is printed, and the exit code is 0."""
    told = run(
        tmp_path,
        """\
- {user: a, api: Fetch, topic: t, expect: allowed, rule: 0}
- {user: a, api: Produce, topic: t, expect: refused, rule: none}
- {user: b, proof: tls, api: JoinGroup, group: g, expect: allowed, rule: 1}
- {user: b, api: JoinGroup, group: g, expect: refused}
- {user: a, api: ListGroups, expect: allowed}
""",
    )

    assert (told.exit_code, told.stderr, told.stdout) == (0, "", "5 cases, 0 failed.\n")


def test_each_case_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    """A wrong verdict, a wrong rule, an unknown API, a bad proof, and names that do not fit: all of them at once."""
    told = run(
        tmp_path,
        """\
- {user: a, api: Fetch, topic: t, expect: refused}
- {user: a, api: Fetch, topic: t, expect: allowed, rule: 1}
- {user: a, api: Fetch, topic: t, expect: allowed, rule: none}
- {user: b, proof: tls, api: JoinGroup, group: "x\\e[31m", expect: allowed}
- {user: a, api: Ftch, topic: t, expect: refused}
- {user: a, proof: word, api: Fetch, topic: t, expect: refused}
- {user: a, api: Fetch, expect: refused}
- {user: a, api: ListGroups, expect: refused}
""",
    )

    assert told.exit_code == 1
    name = "x\\x1b[31m"
    refused = f"READ group {name}: no rule allows it"
    allowed = f"READ topic t: rules[0] ({tmp_path}/s.yaml:6) allows it to a, on t"
    lines = told.stdout.splitlines()
    assert [line.partition("cases.yaml:")[2] for line in lines[:-1]] == [
        f"1: a Fetch topic t: expected refused, found allowed: {allowed}",
        f"2: a Fetch topic t: expected rules[1] to decide, found {allowed}",
        f"3: a Fetch topic t: expected no rule to decide, found {allowed}",
        f"4: b by tls JoinGroup group {name}: expected allowed, found refused: {refused}",
        "5: a Ftch topic t: found the API 'Ftch', expected one that Sluice offers; did you mean Fetch?",
        "6: a by word Fetch topic t: found 'word', expected tls, sasl, sasl:MECHANISM, token, claim or config",
        "7: a Fetch: Fetch needs a topic",
        "8: a ListGroups: expected refused, found allowed: it needs no right",
    ]
    assert lines[-1] == "8 cases, 8 failed."


def test_a_rule_that_no_case_reaches_is_hinted(tmp_path: Path) -> None:
    """Nothing would fail if it were wrong; the exit code stays 0."""
    told = run(tmp_path, "- {user: a, api: Fetch, topic: t, expect: allowed}")

    assert told.exit_code == 0
    assert told.stderr == f"hint: no case is decided by rules[1] ({tmp_path}/s.yaml:7)\n"


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("- {user: a, api: Fetch, topic: t, expect: allow}", "({file}:1): found 'allow', expected one of allowed"),
        ("- {user: a, api: Fetch, topics: t, expect: allowed}", "did you mean topic?"),
        ("- {api: Fetch, topic: t, expect: allowed}", "[0].user"),
        ("- {user: a, api: Fetch, topic: t, expect: allowed, rule: -1}", "[0].rule"),
        ("cases: []", "found a mapping, expected a list"),
        ("[]", "found no case, expected a list of cases"),
        ("a: [", "this is not YAML"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_of_cases_is_refused(tmp_path: Path, cases: str, message: str) -> None:
    """The problem is named with its line, as of the settings."""
    told = run(tmp_path, cases)

    assert told.exit_code == 1
    assert "in the cases:" in told.stderr
    assert message.format(file=tmp_path / "cases.yaml") in told.stderr


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """The exit code is 1."""
    told = invoke("access", "test", "-c", written(tmp_path, RULES), tmp_path / "gone.yaml")

    assert told.exit_code == 1
    assert "gone.yaml): the file cannot be read: No such file or directory" in told.stderr
