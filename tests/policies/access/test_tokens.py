"""access: delegation tokens are a login's own, unless the act `tokens` says more, or Sluice signs on as itself."""

import pytest

from policies import messages
from policies.access.policy import Access
from policies.api import FORWARD, Replace
from policies.testing import PolicyBench
from tests.support.core.access_rules import BOB, bob_may, refused
from wire.errors import ErrorCode

NOTHING = bob_may(topics={"a": ["read"]})
TOKENS = bob_may(cluster=["tokens"])
APIS = {
    "CreateDelegationToken": 65,
    "RenewDelegationToken": 63,
    "ExpireDelegationToken": 63,
    "DescribeDelegationToken": 65,
}


@pytest.mark.parametrize("api", APIS)
def test_under_custody_each_token_would_be_sluices(api: str) -> None:
    """So all four need the act."""
    for settings, code in ((NOTHING, APIS[api]), (TOKENS, None)):
        bench = PolicyBench(Access, settings)
        bench.host.has_custody = True
        assert refused(bench, bench.request(api, fields={})) == code


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_login_makes_tokens_of_its_own(version: int) -> None:
    """Without a right; one for another user needs the act."""
    bench = PolicyBench(Access, NOTHING)
    assert refused(bench, bench.request("CreateDelegationToken", version, fields={})) is None
    if version < 3:
        return
    own = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    other = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    odd = {"owner_principal_type": "Group", "owner_principal_name": "bob"}
    empty = {"owner_principal_type": "User", "owner_principal_name": ""}
    refusal = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    for fields, code in ((own, None), (empty, None), (other, refusal), (odd, refusal)):
        assert refused(bench, bench.request("CreateDelegationToken", 3, fields=fields)) == code
    bench = PolicyBench(Access, TOKENS)
    assert refused(bench, bench.request("CreateDelegationToken", 3, fields=other)) is None


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_login_sees_its_own_tokens(version: int) -> None:
    """Those that it owns, has asked for or may renew: a broker without an authorizer lists all of them."""
    bench = PolicyBench(Access, NOTHING)
    tokens = [token("1", "bob"), token("2", "alice"), token("3", "alice", renewers=["bob"])]
    if version >= 3:
        tokens.append({**token("4", "alice"), **requester("bob")})
    tokens.append(token("5", "alice"))
    request = bench.request("DescribeDelegationToken", version, fields={})
    assert bench.ask(request, BOB) is FORWARD
    verdict = bench.reply(request, fields={"tokens": tokens}, peer=BOB)
    assert isinstance(verdict, Replace)
    reply = messages.decode_response(request.api, verdict.body)
    found = [
        messages.value(each, "token_id", str, "") for each in messages.structs(reply, "tokens")
    ]
    assert found == (["1", "3", "4"] if version >= 3 else ["1", "3"])
    assert b"password-2" not in verdict.body


def test_with_the_act_all_are_seen() -> None:
    """And without it a reply that cannot be read shows none."""
    tokens = {"tokens": [token("1", "alice")]}
    for settings, sees in ((TOKENS, True), (NOTHING, False)):
        bench = PolicyBench(Access, settings)
        request = bench.request("DescribeDelegationToken", fields={})
        bench.ask(request, BOB)
        assert (bench.reply(request, fields=tokens, peer=BOB) is FORWARD) == sees
    bench = PolicyBench(Access, NOTHING)
    request = bench.request("DescribeDelegationToken", fields={})
    bench.ask(request, BOB)
    verdict = bench.reply(request, body=b"\0\0\x7fpassword", peer=BOB)
    assert isinstance(verdict, Replace)
    assert b"password" not in verdict.body
    reply = messages.decode_response(request.api, verdict.body)
    assert messages.value(reply, "error_code", int, 0) == ErrorCode.UNKNOWN_SERVER_ERROR


def token(ident: str, owner: str, renewers: list[str] | None = None) -> dict[str, object]:
    """Return a token as a broker describes it."""
    names = [{"principal_type": "User", "principal_name": each} for each in renewers or ()]
    return {
        "principal_type": "User",
        "principal_name": owner,
        "token_id": ident,
        "hmac": f"password-{ident}".encode(),
        "renewers": names,
    }


def requester(name: str) -> dict[str, object]:
    """Return who has asked for a token (v3+)."""
    return {
        "token_requester_principal_type": "User",
        "token_requester_principal_name": name,
    }
