"""Which rule decides: the reasons agree with the rights by which requests are judged."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.access.explain import (
    IDEMPOTENT_WRITE,
    NO_RULE,
    Reason,
    fitting_rules,
    reason_of,
    shares_of,
)
from policies.access.patterns import with_implied
from policies.access.refusals import Denies
from policies.access.rights import Grant, Rights
from policies.requests import Peer
from wire.authorization import ACTS, Ask, Operation, ResourceType
from wire.errors import ErrorCode

TEAMS = {"a": ("bob", "tls:al*"), "b": ("client:x", "ANONYMOUS")}
WHO = (
    *("bob", "al", "al*", "*", "tls:al*", "sasl:bob", "token:*", "team:a", "team:b", "team:c"),
    *("client:x", "client:*", "ANONYMOUS", "UNKNOWN"),
)
PATTERNS = ("a", "ab", "a*", "ab*", "*", "_*", "__*", "__a", "abc*")
NAMES = ("", "a", "ab", "abc", "b", "_", "_a", "__", "__a")
OPERATIONS = tuple(Operation)
PEER = Peer(1, "10.0.0.1", 1, client_id="", user="bob", principal_source="sasl", proof="sasl:PLAIN")

masks = st.dictionaries(
    st.sampled_from(PATTERNS),
    st.sets(st.sampled_from(OPERATIONS), min_size=1).map(lambda given: sum(1 << o for o in given)),
    max_size=3,
)
grants = st.lists(
    st.builds(
        Grant,
        st.lists(st.sampled_from(WHO), min_size=1, max_size=2).map(tuple),
        st.booleans(),
        masks,
        masks,
        masks,
        st.frozensets(st.sampled_from(ACTS), max_size=2),
    ),
    max_size=6,
)
peers = st.builds(
    replace,
    st.just(PEER),
    user=st.sampled_from(["bob", "al", "alice", "ANONYMOUS", "UNKNOWN"]),
    client_id=st.sampled_from(["", "x", "xy"]),
    principal_source=st.sampled_from(["none", "sasl", "tls", "fixed", "unknown"]),
    proof=st.sampled_from(["", "tls", "sasl:PLAIN", "token", "claim", "config"]),
    groups=st.frozensets(st.sampled_from(["a", "c"])),
)


@given(grants, peers)
def test_the_reasons_agree_with_the_rights(given_grants: list[Grant], peer: Peer) -> None:
    """Each operation on each name, on all topics and on the cluster is allowed by both, or by none."""
    subject = Rights(given_grants, TEAMS).subject(peer)
    rules = fitting_rules(given_grants, TEAMS, peer)
    for operation in OPERATIONS:
        bit = 1 << operation
        for name in NAMES:
            for kind, mask in (
                (ResourceType.TOPIC, subject.topic(name)),
                (ResourceType.GROUP, subject.group(name)),
                (ResourceType.TRANSACTIONAL_ID, subject.transactional_id(name)),
            ):
                assert reason_of(rules, kind, name, operation).is_allowed == bool(mask & bit)
        every = reason_of(rules, ResourceType.TOPIC, None, operation).is_allowed
        assert every == bool(subject.all_topics() & bit)
    for act in set(ACTS) - {IDEMPOTENT_WRITE}:
        reason = reason_of(rules, ResourceType.CLUSTER, act, Operation.ALTER)
        assert reason.is_allowed == (act in subject.acts)
    reason = reason_of(rules, ResourceType.CLUSTER, IDEMPOTENT_WRITE, Operation.IDEMPOTENT_WRITE)
    assert reason.is_allowed == subject.writes_idempotently()


@given(grants, peers)
def test_the_rule_that_is_named_says_so(given_grants: list[Grant], peer: Peer) -> None:
    """It has the effect, it fits the client by the text that is named, and its pattern has the operation."""
    rules = fitting_rules(given_grants, TEAMS, peer)
    for operation in OPERATIONS:
        for name in NAMES:
            reason = reason_of(rules, ResourceType.TOPIC, name, operation)
            if reason.place is None:
                assert reason == NO_RULE
                continue
            rule = given_grants[reason.place]
            mask = rule.topics[reason.pattern]
            assert rule.allows == reason.is_allowed
            assert reason.who in rule.who
            assert (with_implied(mask) if rule.allows else mask) & 1 << operation
            assert name == reason.pattern or name.startswith(reason.pattern.rstrip("*"))


@given(grants, peers)
def test_what_is_counted_names_the_same_rule(given_grants: list[Grant], peer: Peer) -> None:
    """The denies are found by dicts there: the first in the file, or none."""
    denies = Denies(given_grants, TEAMS)
    who = denies.numbers_of(peer)
    rules = fitting_rules(given_grants, TEAMS, peer)
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    named = [(kind, name) for kind in kinds for name in NAMES]
    acts = [(ResourceType.CLUSTER, act) for act in set(ACTS) - {IDEMPOTENT_WRITE}]
    for kind, name in [*named, *acts, (ResourceType.TOPIC, None)]:
        for operation in OPERATIONS:
            reason = reason_of(rules, kind, name, operation)
            if not reason.is_allowed:
                ask = Ask(kind, name, operation, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                assert denies.place(who, ask) == reason.place


@given(grants, peers)
def test_a_share_is_what_names_of_the_pattern_have_in_common(
    given_grants: list[Grant], peer: Peer
) -> None:
    """A name that no longer pattern fits has exactly the mask of the longest one that does."""
    subject = Rights(given_grants, TEAMS).subject(peer)
    rules = fitting_rules(given_grants, TEAMS, peer)
    for share in shares_of(rules, ResourceType.TOPIC):
        if share.pattern.endswith("*"):
            name = f"{share.pattern[:-1]}-no-other"  # the patterns have letters and _ only
            assert subject.topic(name) == share.mask
        else:
            assert subject.topic(share.pattern) == share.mask
        assert share.places


def test_a_deny_decides_before_an_allow_of_an_earlier_rule() -> None:
    """The order of the file decides nothing but which of several denies is named."""
    read = 1 << Operation.READ
    allow = Grant(("bob",), True, {"a": read}, {}, {}, frozenset())
    deny = allow._replace(allows=False, topics={"*": read})
    rules = fitting_rules([allow, deny, deny], {}, PEER)

    found = reason_of(rules, ResourceType.TOPIC, "a", Operation.READ)

    assert found == Reason(False, 1, "bob", "*")
    assert reason_of(rules, ResourceType.TOPIC, "a", Operation.DESCRIBE) == Reason(
        True, 0, "bob", "a"
    )
