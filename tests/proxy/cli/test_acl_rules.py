"""Rules made from Kafka's ACLs give the same rights as Kafka's own authorizer, or fewer where they cannot say all."""

from hypothesis import given
from hypothesis import strategies as st

from policies.access.config import AccessConfig
from policies.access.rights import Rights, Subject
from policies.requests import Peer
from policies.validation import try_convert
from policies.yaml_text import read_yaml
from proxy.cli.acl_rules import translate
from proxy.cli.kafka_acls import Acl
from proxy.cli.rule_lines import RuleText
from proxy.cli.rules_text import quoted, rules_text
from wire.apis import OFFERED, find
from wire.authorization import ACTS, AUTHORIZED, Operation, checks_of

NAMES = ("a", "ab", "b", "_", "_a", "__a", "__consumer_offsets", "")
OPERATIONS = {
    "TOPIC": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "GROUP": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    "TRANSACTIONAL_ID": "WRITE DESCRIBE TWO_PHASE_COMMIT",
    "CLUSTER": "CREATE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE CLUSTER_ACTION",
}
IMPLIED = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}
PEERS = [
    Peer(1, "h", 1, user="ANONYMOUS"),
    Peer(1, "h", 1, user="UNKNOWN", principal_source="unknown"),
    *(
        Peer(1, "h", 1, user=user, principal_source="sasl", proof="sasl:PLAIN")
        for user in ("alice", "bob", "other", "alice*", "te", "team:x")
    ),
]


def acls_of(operations: str) -> st.SearchStrategy[list[Acl]]:
    """Return lists of entries, those of the common kinds and, rarely, those that no rule says."""

    def entries(kind: str) -> st.SearchStrategy[Acl]:
        is_cluster = kind == "CLUSTER"
        names = ["kafka-cluster"] if is_cluster else ["a", "ab", "_", "__a", "*", "x*"]
        return st.builds(
            Acl,
            st.just(kind),
            st.sampled_from(names),
            st.just("LITERAL") if is_cluster else st.sampled_from(["LITERAL", "PREFIXED"]),
            st.sampled_from(["User:alice", "User:bob", "User:*", "User:ANONYMOUS", "User:team:x"]),
            st.sampled_from(["*", "*", "*", "10.0.0.1"]),
            st.sampled_from([*OPERATIONS[kind].split(), *operations.split()]),
            st.sampled_from(["ALLOW", "ALLOW", "DENY"]),
        )

    return st.lists(st.one_of([entries(kind) for kind in OPERATIONS]), max_size=8)


def kafka_allows(acls: list[Acl], user: str, operation: str, kind: str, name: str) -> bool:
    """Decide as `StandardAuthorizer` does for a client from another address than 10.0.0.1."""

    def fits(acl: Acl) -> bool:
        implied = IMPLIED.get(operation, set()) if acl.permission == "ALLOW" else set()
        return (
            acl.resource_type == kind
            and acl.principal in {f"User:{user}", "User:*"}
            and acl.host == "*"
            and acl.operation in {operation, "ALL", *implied}
            and (
                acl.name in {name, "*"}
                if acl.pattern_type == "LITERAL"
                else name.startswith(acl.name)
            )
        )

    found = {acl.permission for acl in acls if fits(acl)}
    return found == {"ALLOW"}


def rules_of(acls: list[Acl]) -> tuple[Rights | None, bool]:
    """Return the rights of the printed rules (None: no rule), and whether all could be said."""
    rules, unsaid = translate(acls)
    assert not any(each.gives_more for each in unsaid)
    if not rules:
        return None, not unsaid
    data, _, problems = read_yaml(rules_text(rules, "x"), "x")
    assert not problems
    assert isinstance(data, list)
    config, problems = try_convert(AccessConfig, data[0]["config"])
    assert not problems
    assert config is not None
    return Rights(config.grants(), config.teams), not unsaid


def given_rights(subject: Subject | None) -> set[tuple[str, str, str]]:
    """Return all (kind, name, operation) that the rules allow; of the cluster all acts but `tokens`."""
    if subject is None:
        return set()
    found = {("CLUSTER", act, "") for act in subject.acts}
    for kind, mask_of in (
        ("TOPIC", subject.topic),
        ("GROUP", subject.group),
        ("TRANSACTIONAL_ID", subject.transactional_id),
    ):
        for name in NAMES:
            found |= {(kind, name, each.name) for each in Operation if mask_of(name) & 1 << each}
    return found


def kafka_rights(acls: list[Acl], user: str) -> set[tuple[str, str, str]]:
    """Return the same of Kafka's authorizer: CREATE on the cluster creates all topics."""
    found = {
        (kind, name, operation)
        for kind in ("TOPIC", "GROUP", "TRANSACTIONAL_ID")
        for name in NAMES
        for operation in OPERATIONS[kind].split()
        if kafka_allows(acls, user, operation, kind, name)
    }
    for operation in ("CREATE", "DELETE"):
        if kafka_allows(acls, user, operation, "CLUSTER", "kafka-cluster"):
            found |= {("TOPIC", name, operation) for name in NAMES}
    for act, operation in operations_of_acts().items():
        if kafka_allows(acls, user, operation, "CLUSTER", "kafka-cluster"):
            found.add(("CLUSTER", act, ""))
    return found


def operations_of_acts() -> dict[str, str]:
    apis = [find(key, OFFERED[key][0]) for key in AUTHORIZED & OFFERED.keys()]
    checks = [check for api in apis if api is not None for check in checks_of(api)]
    return {
        check.act: check.operation.name
        for check in checks
        if check.act in ACTS and check.act != "tokens"
    }


@given(acls_of("ALL"))
def test_the_rules_give_what_the_acls_give_and_never_more(acls: list[Acl]) -> None:
    """If all can be said, the rights are equal, of every client; else some may be missing, and none is more."""
    rights, is_exact = rules_of(acls)
    for peer in PEERS:
        subject = None if rights is None else rights.subject(peer)
        ours, kafkas = given_rights(subject), kafka_rights(acls, peer.user)
        assert ours <= kafkas
        if is_exact and peer.user != "team:x":
            assert ours == kafkas


def test_users_of_equal_rights_share_a_rule() -> None:
    """A hundred readers of a topic are one rule, and a deny is a rule of its own."""
    acls = [
        Acl("TOPIC", "a", "LITERAL", f"User:u{n}", "*", "READ", "ALLOW") for n in range(100)
    ] + [Acl("TOPIC", "a", "LITERAL", "User:u1", "*", "WRITE", "DENY")]

    rules, unsaid = translate(acls)

    assert [(len(rule.who), rule.allows) for rule in rules] == [(100, True), (1, False)]
    assert not unsaid


def test_names_stay_names_in_the_text() -> None:
    """Quotes, line breaks, colours, halves of surrogate pairs and words of YAML are read as they were."""
    names = [
        'a"b\\c',
        "x: y",
        "no",
        "1e3",
        "~",
        "\x1b[31m\n- who",
        "\u202e",
        "😀",
        "\ud800",
        "#",
        "a*",
    ]
    rule = RuleText(tuple(names), True, dict.fromkeys(names, ("read",)), {}, {}, ())

    text = rules_text([rule], "names")
    data, _, problems = read_yaml(text.replace(quoted("\ud800"), "lone"), "x")

    assert not problems
    assert text.isascii()
    assert isinstance(data, list)
    found = data[0]["config"]["rules"][0]
    assert found["who"] == [each if each != "\ud800" else "lone" for each in names]
    assert list(found["topics"]) == found["who"]
