"""`sluice access suggest`: the rules that it prints give what was seen, and no more than a reader is told."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from policies.access.config import AccessConfig
from policies.access.explain import fitting_rules, reason_of
from policies.access.rights import Grant
from policies.registry import PolicyEntry
from policies.validation import try_convert
from policies.yaml_text import read_yaml
from proxy.cli.access_rules import AccessRules, Who
from proxy.cli.rights_seen import SeenRight
from proxy.cli.rules_text import rules_text
from proxy.cli.suggested_rules import KEYS, suggest_rules
from proxy.config.sources import load
from tests.support.processes.command_line import invoke, written
from wire.authorization import Operation, ResourceType

RULES = """\
upstream: {bootstrap_servers: [kafka-1:9092]}
policies:
- use: access
  mode: observe
  config:
    rules:
    - {who: [analyst-*], topics: {open.*: [read]}}
    - {who: [analyst-*], effect: deny, topics: {pii.*: [all]}}
"""


def right(
    user: str, kind: str, name: str | None, operation: str, **columns: str
) -> dict[str, object]:
    return {
        "family": "access",
        "v": 1,
        "instance": "i",
        "boot": "b",
        "seq": 1,
        "ts_ms": 0,
        "user": user,
        "proof": "sasl:PLAIN",
        "client_id": "c",
        "policy": "access",
        "kind": kind,
        "name": name,
        "operation": operation,
        "requests": 1,
        "window_ms": 1000,
        **columns,
    }


def suggest(folder: Path, rights: Sequence[dict[str, object]], *options: str) -> Result:
    day = folder / "usage" / "access" / "dt=2026-11-28"
    day.mkdir(parents=True)
    lines = [json.dumps(each | {"seq": place}) for place, each in enumerate(rights, 1)]
    (day / "access-i-b-000001.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    words = ("access", "suggest", "-c", written(folder, RULES), "--usage-log", folder / "usage")
    return invoke(*words, *options)


def test_users_of_equal_rights_get_one_rule(tmp_path: Path) -> None:
    """An operation that another one gives is left out; clients without a name are named."""
    told = suggest(
        tmp_path,
        [
            right("shop", "topic", "carts", "describe"),
            right("shop", "topic", "carts", "write"),
            right("shop", "group", "shop", "read"),
            right("bob", "topic", "orders", "read"),
            right("carl", "topic", "orders", "read", client_id="other"),
            right("ANONYMOUS", "topic", "orders", "read", proof=""),
            right("ANONYMOUS", "transaction", "t", "write", proof="tls"),
        ],
    )

    assert (told.exit_code, told.stderr) == (0, "")
    assert (
        told.stdout
        == """\
# 7 rights that were seen, for review.
- use: access
  config:
    rules:
      - who: [ANONYMOUS, bob, carl]
        topics:
          orders: [read]
      - who: [shop]
        topics:
          carts: [write]
        groups:
          shop: [read]
      - who: ["tls:ANONYMOUS"]
        transactions:
          t: [write]
"""
    )


def test_what_rules_deny_give_or_cannot_say_is_not_suggested(tmp_path: Path) -> None:
    """Each is told with its reason, and names of clients are escaped."""
    told = suggest(
        tmp_path,
        [
            right("analyst-a", "topic", "pii.x", "read"),
            right("analyst-a", "topic", None, "describe"),
            right("analyst-a", "topic", "open.x", "read"),  # the rules have changed since
            right("a*", "topic", "x", "read"),
            right("team:x\x1b", "topic", "x", "read"),
            right("bob", "topic", "*", "describe"),
            right("bob", "cluster", "replicate", "cluster-action"),
            right("bob", "topic", "x", "read", policy="other"),
        ],
    )

    assert told.exit_code == 0
    assert told.stdout == "The rules give all that was seen.\n"
    deny = f"rules[1] ({tmp_path}/s.yaml:8) denies it to analyst-*, on pii.*"
    assert told.stderr.splitlines() == [
        "cannot be said: no rule is about a user of the name a*",
        f"not suggested: describe topic * for analyst-a: {deny}",
        f"not suggested: read topic pii.x for analyst-a: {deny}",
        "cannot be said: no rule gives the act replicate, which bob asked for",
        "cannot be said: describe topic * for bob: the name is a pattern in a rule",
        "cannot be said: no rule is about a user of the name team:x\\x1b",
    ]


def test_names_are_joined_only_where_no_other_name_begins_so(tmp_path: Path) -> None:
    """Five of one user with the same operations; a name of another user prevents it, and --exact does."""
    logs = [right("app", "topic", f"app-logs-{n}", "write") for n in range(5)]
    mixed = [right("app", "topic", f"mixed.{n}", "read") for n in range(5)]
    few = [right("app", "topic", f"few_{n}", "read") for n in range(4)]
    other = [right("bob", "topic", "mixed.9", "read")]

    told = suggest(tmp_path, [*logs, *mixed, *few, *other])

    assert "          app-logs-*: [write]\n" in told.stdout
    assert told.stdout.count("mixed.") == 6
    assert told.stdout.count("few_") == 4
    assert told.stderr == "review: app-logs-* of app stands for 5 topics\n"
    (tmp_path / "second").mkdir()
    exact = suggest(tmp_path / "second", logs, "--exact")
    assert exact.stdout.count("app-logs-") == 5


def test_acts_and_patterns_are_shown_to_the_reader(tmp_path: Path) -> None:
    """They let a client do more than read and write some topics."""
    told = suggest(
        tmp_path,
        [
            right("ops", "cluster", "alter-acls", "alter"),
            right("ops", "cluster", "idempotent-write", "idempotent-write"),
            right("ops", "topic", None, "describe"),
        ],
    )

    assert told.stderr.splitlines() == [
        "review: ops gets the act alter-acls",
        "review: ops gets describe on all topics, for its pattern",
    ]
    assert "cluster: [alter-acls, idempotent-write]" in told.stdout
    assert '"*": [describe]' in told.stdout


def test_lost_rows_and_bad_files_are_told(tmp_path: Path) -> None:
    """A gap in `seq`; a line that is no row or of a later version; a last line that is being written is left out."""
    day = tmp_path / "access" / "dt=2026-11-28"
    day.mkdir(parents=True)
    file = day / "access-i-b-000001.jsonl"
    row = right("bob", "topic", "x", "read")
    file.write_text(f"{json.dumps(row)}\n{json.dumps(row | {'seq': 4})}\n", "utf-8")
    words = ("access", "suggest", "-c", written(tmp_path, RULES), "--usage-log", tmp_path)
    assert invoke(*words).stderr == "2 rows were lost: rights may be missing.\n"
    (tmp_path / "access" / ".access-i-b-000002.jsonl.open").write_text(
        json.dumps(row | {"seq": 5, "user": "carl"}) + '\n{"family"', "utf-8"
    )
    assert "who: [bob, carl]" in invoke(*words).stdout
    file.write_text(f"{json.dumps(row | {'v': 2})}\n", "utf-8")
    later = invoke(*words)
    assert later.exit_code == 1
    assert later.stderr == f"{file}:1: found version 2, expected 1\n"
    file.write_text("no row\n", "utf-8")
    assert f"{file}:1: no row of the family access: " in invoke(*words).stderr


def test_a_usage_log_without_the_family_is_told(tmp_path: Path) -> None:
    """Also a configuration without a usage log."""
    words = ("access", "suggest", "-c", written(tmp_path, RULES))
    assert "expected a usage log: usage_log.directory, or --usage-log." in invoke(*words).stderr
    empty = invoke(*words, "--usage-log", tmp_path)
    assert empty.exit_code == 1
    assert "has no rows of the family access" in empty.stderr


NAMES = st.sampled_from(
    [*(f"app-{n}" for n in range(7)), "app", "b.c.d", "b.c.e", "open.x", "pii.x"]
)
RIGHTS = st.builds(
    SeenRight,
    *(st.just(each) for each in (1, "i", "b", 1)),
    st.sampled_from(["bob", "analyst-a", "carl"]),
    st.just("sasl:PLAIN"),
    st.just(""),
    st.just("access"),
    st.sampled_from(list(KEYS)),
    NAMES,
    st.sampled_from(["read", "write", "describe"]),
).filter(
    lambda each: (each.kind, each.operation) not in {("group", "write"), ("transaction", "read")}
)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> AccessRules:
    return AccessRules(load(written(tmp_path_factory.mktemp("rules"), RULES), {}, {}), 0)


@given(seen=st.lists(RIGHTS, max_size=40), merges=st.sampled_from([True, False]))
def test_the_suggestion_gives_what_was_seen(
    rules: AccessRules, seen: list[SeenRight], *, merges: bool
) -> None:
    """Each right that no rule denies is given by the rules together with those that are suggested."""
    found = suggest_rules(seen, rules, merges=merges)
    grants = [*rules.grants, *grants_of(rules_text(found.rules, "x") if found.rules else "[]")]
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transaction": ResourceType.TRANSACTIONAL_ID,
    }
    for each in seen:
        about = fitting_rules(grants, {}, Who(each.user, each.client_id, each.proof).peer())
        operation = Operation[each.operation.upper()]
        reason = reason_of(about, kinds[each.kind], each.name, operation)
        is_denied = each.user == "analyst-a" and (each.kind, each.name) == ("topic", "pii.x")
        assert reason.is_allowed != is_denied


def grants_of(text: str) -> list[Grant]:
    """Return the rules of a printed entry."""
    data, _, problems = read_yaml(text, "x")
    assert not problems
    entries, problems = try_convert(list[PolicyEntry], data)
    assert not problems
    grants: list[Grant] = []
    for entry in entries or ():
        config, problems = try_convert(AccessConfig, entry.config)
        assert config is not None, problems
        grants += config.grants()
    return grants
