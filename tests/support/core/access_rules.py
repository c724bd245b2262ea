"""Rules of the policy `access`, the policy itself, and clients who are judged by it."""

from dataclasses import replace

from policies.access.policy import Access
from policies.api import Forward, Hold, Peer, Reject, Respond, Verdict
from policies.denial import Deny
from policies.testing import BenchHost, BenchRequest, PolicyBench
from policies.validation import try_convert
from wire.authorization import Ask

STRANGER = Peer(1, "127.0.0.1", 50_000, client_id="bench")
"""A client that has not authenticated, as most tests' clients are."""
BOB = replace(STRANGER, session_id=2, user="bob", principal_source="sasl", proof="sasl:PLAIN")


def rules(
    *topics: str, groups: tuple[str, ...] = (), transactions: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return the settings that allow the stranger all operations on these names and patterns."""
    names = {"topics": topics, "groups": groups, "transactions": transactions}
    given = {kind: dict.fromkeys(each, ("all",)) for kind, each in names.items() if each}
    return {"rules": [{"who": ["ANONYMOUS"], **(given or {"cluster": ["describe"]})}]}


def access(settings: dict[str, object]) -> Access:
    """Return the policy with these settings."""
    config, problems = try_convert(Access.Config, settings, "config")
    assert not problems
    return Access(config, BenchHost("access"))


def bob_may(**allowed: object) -> dict[str, object]:
    """Return the settings of one rule, about bob."""
    return {"rules": [{"who": ["bob"], **allowed}]}


def refused(bench: PolicyBench, request: BenchRequest, peer: Peer = BOB) -> object:
    """Return the code that refuses the whole request, or the codes by what `Deny` names; None if it passes whole.

    An ask stands by its name.
    """
    return refusal_of(bench.ask(request, peer))


def refusal_of(verdict: Verdict) -> object:
    """Return the same of a verdict; of a Hold what comes without the broker's answer."""
    if isinstance(verdict, Hold):
        verdict = verdict.then
    if isinstance(verdict, Respond):
        assert verdict.refuses is not None
        return int(verdict.refuses.code)
    if isinstance(verdict, Reject):
        assert verdict.message
        return int(verdict.code)
    assert isinstance(verdict, Forward | Deny)
    denials = verdict.denials if isinstance(verdict, Forward) else (verdict,)
    assert all(each.message and each.policy for each in denials)
    codes = {
        key.name if isinstance(key, Ask) else key: int(code)
        for each in denials
        for key, code in each.codes.items()
    }
    return codes or None
