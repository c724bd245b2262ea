"""`sluice access import`: the text of `kafka-acls`, a cluster's own ACLs, and what rules cannot say."""

from pathlib import Path

import pytest

from proxy.cli.kafka_acls import Acl, parse_listing
from tests.support.processes.command_line import invoke

HEADING = "Current ACLs for resource `ResourcePattern(resourceType={}, name={}, patternType={})`: "


def listing_of(kind: str, name: str, pattern: str, *entries: str) -> str:
    """Return what `kafka-acls --list` prints of one resource, with its spaces at the ends of lines."""
    acls = [
        "\t(principal={}, host={}, operation={}, permissionType={})".format(*each.split())
        for each in entries
    ]
    return HEADING.format(kind, name, pattern) + "\n " + "\n".join(acls) + " \n\n"


LISTING = (
    listing_of(
        *("TOPIC", "orders", "LITERAL"),
        "User:alice * READ ALLOW",
        "User:bob * READ ALLOW",
        "User:* * WRITE DENY",
    )
    + listing_of("GROUP", "g-", "PREFIXED", "User:alice * READ ALLOW", "User:bob * READ ALLOW")
    + listing_of("CLUSTER", "kafka-cluster", "LITERAL", "User:CN=ops\\,O=x * DESCRIBE ALLOW")
)
UNSAYABLE = listing_of(
    *("TOPIC", "t", "LITERAL"),
    "User:bob 10.0.0.1 READ ALLOW",
    "User:bob 10.0.0.1 WRITE DENY",
    "Group:x * READ DENY",
    "User:team:x * READ ALLOW",
)


def test_the_output_of_kafka_acls_becomes_rules(tmp_path: Path) -> None:
    """Users of equal rights share a rule; the text can be put under `policies`."""
    file = tmp_path / "acls.txt"
    file.write_text(LISTING, "utf-8")

    told = invoke("access", "import", "--from-acls", file)

    assert (told.exit_code, told.stderr) == (0, "")
    assert (
        told.stdout
        == """\
# The rights of 6 ACLs of Kafka.
- use: access
  config:
    rules:
      - who: ["CN=ops\\\\,O=x"]
        cluster: [describe, describe-acls, describe-users]
      - who: [alice, bob]
        topics:
          orders: [read]
        groups:
          g-*: [read]
      - who: ["*", ANONYMOUS, UNKNOWN]
        effect: deny
        topics:
          orders: [write]
"""
    )
    settings = tmp_path / "s.yaml"
    settings.write_text(
        f"upstream: {{bootstrap_servers: [a:1]}}\npolicies:\n{told.stdout}", "utf-8"
    )
    assert invoke("check", "-c", settings).exit_code == 0
    told = invoke(
        "access", "explain", "-c", settings, "--user=bob", "--api=Fetch", "--topic=orders"
    )
    assert told.exit_code == 0


def test_what_cannot_be_said_is_named_and_nothing_is_printed(tmp_path: Path) -> None:
    """With --partial an allow is left out, a deny is wider, and a deny that is lost says so."""
    file = tmp_path / "acls.txt"
    file.write_text(UNSAYABLE, "utf-8")

    told = invoke("access", "import", "--from-acls", file)
    partial = invoke("access", "import", "--from-acls", file, "--partial")

    assert (told.exit_code, told.stdout) == (1, "")
    known = "rules know no addresses of clients"
    more = "no rule is about such a principal; WITHOUT IT THE RULES GIVE MORE"
    assert [line.removeprefix("cannot be said: ") for line in told.stderr.splitlines()] == [
        f"ALLOW READ on TOPIC t to User:bob from 10.0.0.1: {known}",
        f"DENY WRITE on TOPIC t to User:bob from 10.0.0.1: {known}; it is denied from all",
        f"DENY READ on TOPIC t to Group:x: {more}",
        "ALLOW READ on TOPIC t to User:team:x: a name like it means several users in a rule",
    ]
    assert (partial.exit_code, partial.stderr) == (0, told.stderr)
    assert (
        "- who: [bob]\n        effect: deny\n        topics:\n          t: [write]\n"
        in partial.stdout
    )
    assert partial.stdout.count("who:") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "line 1: found 'hello', expected a line of `kafka-acls --list`"),
        ("\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n", "line 1: found '(principal="),
        (LISTING.replace("ALLOW", "MAYBE"), "line 2: found "),
        ("\x1b[31m", "line 1: found '\\x1b[31m'"),
        ("", "There are no ACLs."),
    ],
)  # fmt: skip
def test_a_text_that_is_none_of_kafka_acls_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    """A line that is not understood may be a deny: none is skipped."""
    file = tmp_path / "acls.txt"
    file.write_text(text, "utf-8")

    told = invoke("access", "import", "--from-acls", file)

    assert (told.exit_code, told.stdout) == (1, "")
    assert message in told.stderr


def test_there_is_one_source() -> None:
    """A file or a cluster; a cluster that does not answer is one sentence."""
    both = invoke("access", "import", "--from-acls", "-", "--bootstrap", "a:1")
    assert both.exit_code == 2
    gone = invoke("access", "import", "--bootstrap", "127.0.0.1:1")
    assert gone.exit_code == 1
    assert gone.stderr == "Nothing answers at 127.0.0.1:1: Connection refused.\n"


def test_names_with_commas_and_brackets_are_read_whole() -> None:
    """A principal may have any characters but a line break."""
    heading = HEADING.format("GROUP", "a, patternType=b)", "LITERAL")
    entry = "(principal=User:CN=a, host=b)(, host=*, operation=ALL, permissionType=DENY)"

    (acl,) = parse_listing(f"{heading}\n\t{entry}\n")

    assert acl == Acl(
        "GROUP", "a, patternType=b)", "LITERAL", "User:CN=a, host=b)(", "*", "ALL", "DENY"
    )
