"""`sluice access explain` and `show`: which rule decides, what a client sees, and all that it may do."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.processes.command_line import invoke, written

RULES = """\
upstream: {bootstrap_servers: [kafka-1:9092]}
policies:
- use: limits
- use: access
  config:
    teams: {billing: [svc-billing, svc-invoices]}
    rules:
    - who: [team:billing]
      topics: {billing.*: [read, write], orders: [read]}
      groups: {billing-*: [read]}
      transactions: {billing-*: [write]}
    - who: [analyst-*]
      topics: {'*': [read]}
    - {who: [analyst-*], effect: deny, topics: {pii.*: [all]}}
    - {who: [tls:enricher], topics: {orders: [read]}}
    - {who: [oncall], cluster: [describe, move-partitions]}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return written(tmp_path, RULES)


def explain(rules: Path, words: str) -> Result:
    return invoke("access", "explain", "-c", rules, *words.split())


def test_a_refusal_names_the_right_and_what_the_client_sees(rules: Path) -> None:
    """The exit code is 1, so that scripts can ask."""
    told = explain(rules, "--user svc-billing --api EndTxn --transaction orders-1")

    assert told.exit_code == 1
    assert told.stdout == (
        "refused  WRITE transaction orders-1: no rule allows it\n"
        "         the client sees TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53), for the whole request\n"
    )


def test_an_allow_names_the_rule_and_its_line(rules: Path) -> None:
    """Also who it is about, and the pattern of the name."""
    told = explain(rules, "--user svc-billing --api Produce --topic billing.new")

    assert told.exit_code == 0
    assert told.stdout == (
        f"allowed  WRITE topic billing.new: rules[0] ({rules}:8) allows it to team:billing, on billing.*\n"
    )


def test_a_deny_is_named_before_an_allow(rules: Path) -> None:
    """One of two topics is refused, the other is not."""
    told = explain(rules, "--user analyst-ann --api Fetch --topic orders --topic pii.names")

    assert told.exit_code == 1
    assert told.stdout.splitlines()[1:] == [
        f"refused  READ topic pii.names: rules[2] ({rules}:14) denies it to analyst-*, on pii.*",
        "         the client sees TOPIC_AUTHORIZATION_FAILED (29)",
    ]


def test_the_first_right_that_refuses_the_whole_ends_the_list(rules: Path) -> None:
    """Kafka looks at the transactional id, then at the group, then at topics."""
    told = explain(
        rules,
        "--user svc-billing --api TxnOffsetCommit --transaction billing-1 --group g --topic x",
    )

    lines = told.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "allowed  WRITE transaction billing-1",
        "refused  READ group g",
        "         the client sees GROUP_AUTHORIZATION_FAILED (30), for the whole request",
    ]


def test_topics_of_a_transaction_are_refused_together(rules: Path) -> None:
    """The others get OPERATION_NOT_ATTEMPTED, as in Kafka."""
    told = explain(
        rules,
        "--user svc-billing --api AddPartitionsToTxn --version 3 --transaction billing-1 --topic x",
    )

    assert "(29), and OPERATION_NOT_ATTEMPTED (55) for each other topic" in told.stdout


def test_a_rule_that_demands_a_proof_needs_one(rules: Path) -> None:
    """Without one the name is only a name, and a hint says what a proof would change."""
    words = "--user enricher --api Fetch --topic orders"
    named, proved = explain(rules, words), explain(rules, f"{words} --proof tls")

    assert (named.exit_code, proved.exit_code) == (1, 0)
    assert named.stderr == "hint: with --proof tls it is allowed\n"
    assert proved.stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ("--user oncall --api DescribeLogDirs", 0, "allowed  DESCRIBE cluster describe: "),
        ("--user oncall --api CreateAcls", 1, "refused  ALTER cluster alter-acls: "),
        ("--user oncall --api ListGroups", 0, "allowed  ListGroups needs no right"),
        ("--user oncall --api InitProducerId", 1, "refused  IDEMPOTENT_WRITE cluster "),
        ("--user svc-billing --api InitProducerId", 0, "allowed  IDEMPOTENT_WRITE cluster "),
        ("--user oncall --api DescribeConfigs", 1, "refused  DESCRIBE_CONFIGS cluster "),
        ("--user analyst-a --api Metadata --topic t", 0, "allowed  DESCRIBE topic t: rules[1]"),
        ("--user analyst-a --api Metadata --topic t --creates", 1, "allowed  DESCRIBE topic t: "),
        (
            "--user analyst-a --api StreamsGroupHeartbeat --group g --pattern",
            1,
            "refused  READ group g: ",
        ),
        ("--user ANONYMOUS --api Fetch --topic orders", 1, "refused  READ topic orders: no rule"),
    ],
)
def test_each_kind_of_right_is_judged(rules: Path, words: str, code: int, line: str) -> None:
    """Acts on the cluster, requests without a right, topics that would be created, clients without a name."""
    told = explain(rules, words)

    assert told.exit_code == code
    assert told.stdout.startswith(line)


def test_a_pattern_needs_all_topics(tmp_path: Path) -> None:
    """A deny of any topic refuses it: the broker would resolve the pattern without our rules."""
    text = "upstream: {bootstrap_servers: [a:1]}\npolicies:\n- use: access\n  config:\n    rules:\n"
    rule = "    - {who: [a], topics: {'*': [read]}, groups: {g: [read]}}\n"
    deny = "    - {who: [a], effect: deny, topics: {x: [describe]}}\n"
    words = "--user a --api ConsumerGroupHeartbeat --group g --pattern"

    assert explain(written(tmp_path, text + rule), words).exit_code == 0
    denied = explain(written(tmp_path, text + rule + deny), words)

    assert denied.exit_code == 1
    assert "refused  DESCRIBE topic *: rules[1] " in denied.stdout
    assert "TOPIC_AUTHORIZATION_FAILED (29), for the whole request" in denied.stdout


def test_json_has_each_right(rules: Path) -> None:
    """For scripts: the rule's place, and the error's name where it is refused."""
    told = explain(
        rules, "--user svc-billing --api OffsetCommit --group billing-1 --topic x --json"
    )

    found = json.loads(told.stdout)
    assert (found["allowed"], found["api"]) == (False, "OffsetCommit")
    group, topic = found["rights"]
    assert (group["kind"], group["rule"], group["pattern"]) == ("group", 0, "billing-*")
    assert (topic["rule"], topic["error"]) == (None, "TOPIC_AUTHORIZATION_FAILED")


def test_kafkas_own_topics_take_part_in_no_transaction(rules: Path) -> None:
    """Whatever the rules say."""
    words = "--user svc-billing --api AddPartitionsToTxn --transaction billing-1"

    told = explain(rules, f"{words} --topic __consumer_offsets")

    assert told.stdout.splitlines()[1] == (
        "refused  WRITE topic __consumer_offsets: no transaction writes to Kafka's own topics"
    )


def test_tokens_are_a_logins_own_unless_sluice_signs_on_as_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it does, a token would be Sluice's: the act is needed."""
    words = "--user bob --api CreateDelegationToken"
    own = explain(written(tmp_path, RULES), words)
    assert (own.exit_code, own.stderr) == (0, "hint: tokens of other users need the act tokens\n")
    monkeypatch.setenv("SLUICE_UPSTREAM_SASL_PASSWORD", "secret")
    custody = RULES.replace("9092]", "9092], sasl: {mechanism: PLAIN, username: x}, tls: {}")
    told = explain(written(tmp_path, custody), words)
    assert told.exit_code == 1
    assert "refused  CREATE_TOKENS cluster tokens: no rule allows it" in told.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--user a --api Prodce", "found the API 'Prodce', expected one that Sluice offers; did you mean Produce?"),
        ("--user a --api LeaderAndIsr", "'LeaderAndIsr', which no client may use"),
        ("--user a --api Produce --topic t --version 99", "version 99 of Produce, expected one that is offered: 0-"),
        ("--user a --api Produce", "Produce needs a topic"),
        ("--user a --api OffsetCommit --topic t", "OffsetCommit needs a group"),
        ("--user a --api FindCoordinator", "FindCoordinator needs a group or transaction"),
        ("--user a --api Fetch --topic t --group g", "Fetch needs no right on a group, expected topic"),
        ("--user a --api CreateAcls --topic t", "CreateAcls needs no right on a topic, expected nothing"),
        ("--user a --api Fetch --topic t --pattern", "Fetch takes no pattern, expected one of ConsumerGroupHeartbeat"),
        ("--user a --proof scram --api Fetch --topic t", "found 'scram', expected tls, sasl, sasl:MECHANISM,"),
        ("--user a --proof tls:x --api Fetch --topic t", "found 'tls:x', expected tls, sasl"),
        ("--user a --api \x1b[31m", "found the API '\\x1b[31m'"),
        ("--api Fetch", "Missing option '--user'"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_named(rules: Path, words: str, message: str) -> None:
    """The exit code is 2, and control characters are escaped."""
    told = explain(rules, words)

    assert told.exit_code == 2
    assert message in " ".join(told.stderr.split())
    assert "\x1b" not in told.stderr


def test_hostile_names_are_escaped(rules: Path) -> None:
    """A topic's name is a text from outside: it colours no terminal and adds no line."""
    told = invoke(
        "access", "explain", "-c", rules, "--user", "a\n", "--api", "Fetch", "--topic", "\x1b[2J\n"
    )

    assert told.stdout.splitlines()[0] == "refused  READ topic \\x1b[2J\\n: no rule allows it"
    assert len(told.stdout.splitlines()) == 2


def test_settings_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """A file that is missing, is no YAML, has a mistake, has no such policy, or has two."""
    words = "--user a --api ListGroups"
    assert "expected the file with the rules" in invoke("access", "explain", *words.split()).stderr
    gone = explain(tmp_path / "gone.yaml", words)
    assert gone.exit_code == 1
    assert "gone.yaml): the file cannot be read: No such file" in gone.stderr
    broken = explain(written(tmp_path, "a: ["), words)
    assert broken.exit_code == 1
    assert "this is not YAML" in broken.stderr
    wrong = explain(written(tmp_path, RULES.replace("move-partitions", "move-partition")), words)
    assert wrong.exit_code == 1
    assert "policies[1].config.rules[4].cluster[1]" in wrong.stderr
    assert "did you mean move-partitions?" in wrong.stderr
    none = explain(written(tmp_path, "upstream: {bootstrap_servers: [a:1]}"), words)
    assert none.exit_code == 1
    assert "found no `use: access` among the policies, expected one" in none.stderr
    second = "- {use: access, name: other, mode: observe, config: {rules: [{who: [a], cluster: [all]}]}}\n"
    two = written(tmp_path, RULES + second)
    told = explain(two, words)
    assert told.exit_code == 1
    assert "found 2 entries with `use: access`" in told.stderr
    assert "choose one by --policy: access, other" in told.stderr
    chosen = explain(two, f"{words} --policy other")
    assert chosen.exit_code == 0
    assert chosen.stderr == "hint: mode is observe: refusals are only counted\n"


def test_show_lists_all_that_a_client_may_do(rules: Path) -> None:
    """A row for each pattern, with what its names have in common; what is denied is there, too."""
    shown = invoke("access", "show", "-c", rules, "--user", "analyst-ann")
    assert shown.exit_code == 0
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["kind", "name", "may", "rules"],
        ["topic", "*", "read,", "describe", "1"],
        ["topic", "pii.*", "nothing", "1,", "2"],
    ]
    oncall = json.loads(invoke("access", "show", "-c", rules, "--user", "oncall", "--json").stdout)
    assert [(row["name"], row["may"], row["rules"]) for row in oncall] == [
        ("describe", ["yes"], [4]),
        ("move-partitions", ["yes"], [4]),
    ]
    billing = invoke("access", "show", "-c", rules, "--user", "svc-billing")
    assert "idempotent-write" in billing.stdout  # it may write to some topic
    none = invoke("access", "show", "-c", rules, "--user", "mallory\x1b")
    assert none.stdout == "No rule is about mallory\\x1b: it may do nothing.\n"
