"""The claims of a token with a valid signature: whose it is, and every reason for which it is nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth.bearer_tokens import TokenFacts, TokenFault
from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.tokens.claims import MAX_GROUPS, ClaimRules, claim_of
from tests.support.shell.token_issuer import AUDIENCE, ISSUER

NOW_S = 1_790_000_000
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S, "exp": NOW_S + 300}
POD = "system:serviceaccount:shop:orders"


def rules(
    principal: str = "sub", mapping: tuple[str, ...] = ("DEFAULT",), groups: str = "groups"
) -> ClaimRules:
    return ClaimRules(
        ISSUER, frozenset({AUDIENCE, "b"}), principal, PrincipalMapper(mapping), groups
    )


def test_a_token_says_its_user_groups_and_times() -> None:
    """The later of `nbf` and `iat` is its begin."""
    found = rules().judge({**CLAIMS, "nbf": NOW_S + 5, "groups": ["ops", "dev"]})
    assert found == TokenFacts(
        "alice", frozenset({"ops", "dev"}), (NOW_S + 5) * 1000, (NOW_S + 300) * 1000
    )
    del (plain := {**CLAIMS})["iat"]
    assert rules().judge(plain) == TokenFacts("alice", frozenset(), 0, (NOW_S + 300) * 1000)


@pytest.mark.parametrize("audience", [AUDIENCE, ["x", "b"], ["b"]])
def test_one_of_the_audiences_is_enough(audience: object) -> None:
    """A token may be for several services."""
    assert isinstance(rules().judge({**CLAIMS, "aud": audience}), TokenFacts)


WRONG = [
    ("iss", "https://idp.test/"),
    ("iss", "https://IDP.test"),
    ("iss", None),
    ("iss", [ISSUER]),
    ("aud", "kafka2"),
    ("aud", "KAFKA"),
    ("aud", []),
    ("aud", [["kafka"]]),
    ("aud", {"kafka": True}),
    ("aud", None),
    ("exp", None),
    ("exp", True),
    ("exp", "1790000300"),
    ("exp", -1),
    ("exp", float("inf")),
    ("exp", (NOW_S + 300) * 1000),
    ("exp", 10**400),
    ("nbf", "now"),
    ("nbf", None),
    ("iat", []),
    ("sub", ""),
    ("sub", None),
    ("sub", 5),
    ("sub", ["alice"]),
    ("sub", "a\nb"),
    ("sub", "\ud800"),
    ("sub", "x" * 2000),
    ("groups", 5),
    ("groups", {"ops": 1}),
    ("groups", ["ops", 1]),
    ("groups", [["ops"]]),
    ("groups", [""]),
    ("groups", ["a\0"]),
    ("groups", ["\udc00"]),
    ("groups", ["x" * 250]),
    ("groups", [f"g{number}" for number in range(MAX_GROUPS + 1)]),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda each: repr(each)[:40])
def test_a_claim_that_is_wrong_refuses_the_token(name: str, value: object) -> None:
    """And the reason names the claim, not its value: that is the client's text."""
    found = rules().judge({**CLAIMS, name: value})
    assert isinstance(found, TokenFault)
    assert "alice" not in found.why
    assert len(found.why) < 100


@pytest.mark.parametrize("missing", ["iss", "aud", "exp", "sub"])
def test_a_claim_that_is_missing_refuses_the_token(missing: str) -> None:
    """A token without an end would hold for ever."""
    found = rules().judge({name: value for name, value in CLAIMS.items() if name != missing})
    assert isinstance(found, TokenFault)


@pytest.mark.parametrize(
    "told",
    [
        {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}},
        {"hasgroups": True},
    ],
    ids=["distributed", "hasgroups"],
)
def test_groups_that_are_told_elsewhere_refuse_the_token(told: dict[str, object]) -> None:
    """Of a user with very many groups a provider lists none: a rule that denies one would not be about them."""
    assert isinstance(rules().judge(CLAIMS | told), TokenFault)
    assert isinstance(rules(groups="/groups").judge(CLAIMS | told), TokenFault)
    assert isinstance(rules(groups="").judge(CLAIMS | told), TokenFacts)
    assert isinstance(rules().judge(CLAIMS | told | {"groups": ["ops"]}), TokenFacts)
    assert isinstance(rules().judge(CLAIMS | {"_claim_names": {"roles": "src1"}}), TokenFacts)


def test_the_user_comes_through_rules_and_none_is_made_without_one() -> None:
    """A pod's account becomes a user; one of another namespace becomes nobody."""
    pods = rules(mapping=("RULE:^system:serviceaccount:shop:([^:]+)$/shop.$1/",))
    assert pods.judge({**CLAIMS, "sub": POD}).user == "shop.orders"  # type: ignore[union-attr]
    for other in ("system:serviceaccount:other:orders", f"x{POD}", f"{POD}:x", "alice"):
        assert isinstance(pods.judge({**CLAIMS, "sub": other}), TokenFault)


def test_a_claim_has_a_name_or_a_path() -> None:
    """A name with dots or an address is a name; only a path goes down (RFC 6901)."""
    claims: dict[str, object] = {
        "a.b": 1,
        "https://x/y": 2,
        "realm": {"roles": ["r"], "a/b": {"~": 3}},
        "list": [{"x": 1}],
    }
    assert claim_of(claims, "a.b") == 1
    assert claim_of(claims, "https://x/y") == 2
    assert claim_of(claims, "/realm/roles") == ["r"]
    assert claim_of(claims, "/realm/a~1b/~0") == 3
    for none in ("realm.roles", "/realm/none/x", "/a.b/x", "/list/0/x", "//", "/"):
        assert claim_of(claims, none) is None
    found = rules(groups="/realm/roles").judge({**CLAIMS, **claims})
    assert isinstance(found, TokenFacts)
    assert found.groups == {"r"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*CLAIMS, "nbf", "groups"]), JSON))
def test_any_json_is_judged_and_never_raises(changed: dict[str, object]) -> None:
    """Whoever passes has the issuer, an audience and an end."""
    found = rules().judge({**CLAIMS, **changed})
    if isinstance(found, TokenFacts):
        assert {**CLAIMS, **changed}["iss"] == ISSUER
        assert found.user
        assert found.expires_ms >= 0
