"""The next topic that a client may see is found from the rules: nothing that it may see lies before it."""

from hypothesis import given
from hypothesis import strategies as st

from policies.access.rights import DESCRIBE, Grant, Rights
from policies.requests import Peer
from wire.authorization import Operation

PEER = Peer(1, "10.0.0.1", 1, user="bob", principal_source="sasl", proof="sasl:PLAIN")
PATTERNS = ("a", "ab", "a*", "ab*", "*", "_*", "__*", "__a", "abc*", "b-*", "b")
NAMES = st.text("ab_-.9c", min_size=1, max_size=5)
grants = st.lists(
    st.builds(
        Grant,
        st.sampled_from([("bob",), ("al",), ("*",)]),
        st.booleans(),
        st.dictionaries(st.sampled_from(PATTERNS), st.just(1 << Operation.DESCRIBE), max_size=3),
        st.just({}),
        st.just({}),
        st.just(frozenset()),
    ),
    max_size=6,
)


@given(grants, st.lists(NAMES, max_size=30))
def test_no_name_that_is_shown_is_passed_over(given_grants: list[Grant], names: list[str]) -> None:
    """And the next name is after the hidden one: who follows it always comes to an end."""
    subject = Rights(given_grants, {}).subject(PEER)
    shown = {each: bool(subject.topic(each) & DESCRIBE) for each in names}
    for hidden in (each for each, is_shown in shown.items() if not is_shown):
        found = subject.next_topic(hidden)
        later = sorted(each for each, is_shown in shown.items() if is_shown and each > hidden)
        if found is None:
            assert not later
        else:
            assert found > hidden
            assert all(found <= each for each in later)


def test_the_next_name_tells_of_the_rules_only() -> None:
    """It is a name or the beginning of names that a rule has, or the end of those that one denies."""
    everything = {"*": DESCRIBE, "orders": DESCRIBE}
    rules = [
        Grant(("bob",), True, everything, {}, {}, frozenset()),
        Grant(("bob",), False, {"pii.*": DESCRIBE}, {}, {}, frozenset()),
        Grant(("al",), True, {"pii.al-*": DESCRIBE}, {}, {}, frozenset()),
    ]
    subject = Rights(rules, {}).subject(PEER)
    assert subject.next_topic("pii.customers") == "pii/"
    assert subject.next_topic("__consumer_offsets") == "_`"
    only = Rights([Grant(("bob",), True, {"orders": DESCRIBE}, {}, {}, frozenset())], {})
    assert only.subject(PEER).next_topic("alpha") == "orders"
    assert only.subject(PEER).next_topic("zebra") is None
