"""What the claims of a token with a valid signature say: whose it is, in which groups, and when it holds (RFC 7519).

Rules:
- Issuer and audience must be those of the settings, letter by letter. A token without an end is refused.
- The user is a claim, through rules as those of certificates (`listen.tls.principal.rules`). A name that no rule
  matches, with control characters or of another type refuses the token; it never becomes another user.
- Groups are texts in a list, or one text. A list with anything else, or too many, refuses the token: a rule that denies
  something to a group must not be evaded by a group that was left out. Without the claim there are none; a token that
  says that its groups are told elsewhere is refused (OpenID Connect Core, 5.6.2; Microsoft Entra's "overage").
- A claim is named as it stands in the token, or by a path of names (JSON pointer, RFC 6901) if it begins with `/`.
- Times are not judged here: the caller knows what time it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.auth.bearer_tokens import TokenFacts, TokenFault

if TYPE_CHECKING:
    from proxy.core.auth.principal_mapping import PrincipalMapper

MAX_GROUPS: Final = 1_000
MAX_GROUP_CHARS: Final = 249
MAX_TIME_S: Final = 1e11
"""Some 3,000 years; a larger number is probably in milliseconds."""


class ClaimRules(NamedTuple):
    """What is expected of claims. `issuer` "" and an empty `audiences`: any; `groups_claim` "": no groups are read."""

    issuer: str
    audiences: frozenset[str]
    principal_claim: str
    mapper: PrincipalMapper
    groups_claim: str = ""

    def judge(self, claims: dict[str, object]) -> TokenFacts | TokenFault:
        """Return what the claims of a token say, or why it is refused."""
        if self.issuer and claims.get("iss") != self.issuer:
            return TokenFault("its issuer is another")
        if self.audiences and not self.audiences.intersection(_audiences(claims)):
            return TokenFault("it is for another audience")
        expires_ms = _ms(claims.get("exp"))
        if expires_ms is None:
            return TokenFault("it has no time at which it expires (exp)")
        begins_ms = 0
        for name in ("nbf", "iat"):
            if name in claims:
                told_ms = _ms(claims[name])
                if told_ms is None:
                    return TokenFault(f"its {name} is no time")
                begins_ms = max(begins_ms, told_ms)
        user = self._user_of(claims)
        if user is None:
            return TokenFault(f"its claim {self.principal_claim!r} gives no user")
        groups = self._groups_of(claims)
        if groups is None:
            return TokenFault(
                f"its claim {self.groups_claim!r} is no list of at most {MAX_GROUPS} groups"
            )
        return TokenFacts(user, groups, begins_ms, expires_ms)

    def _user_of(self, claims: dict[str, object]) -> str | None:
        name = claim_of(claims, self.principal_claim)
        user = self.mapper.user_of(name) if isinstance(name, str) and _is_text(name) else None
        return user if user is not None and _is_text(user) else None

    def _groups_of(self, claims: dict[str, object]) -> frozenset[str] | None:
        found = claim_of(claims, self.groups_claim) if self.groups_claim else None
        if found is None:
            return None if self._tells_groups_elsewhere(claims) else frozenset()
        names = [found] if isinstance(found, str) else found
        if not isinstance(names, list) or len(names) > MAX_GROUPS:
            return None
        groups = [each for each in names if isinstance(each, str) and _is_group(each)]
        return frozenset(groups) if len(groups) == len(names) else None

    def _tells_groups_elsewhere(self, claims: dict[str, object]) -> bool:
        """Return whether the claim is too large for the token, so that it names a place to ask instead."""
        elsewhere = claims.get("_claim_names")
        is_there = isinstance(elsewhere, dict) and self.groups_claim.strip("/") in elsewhere
        return bool(self.groups_claim) and (is_there or claims.get("hasgroups") is True)


def claim_of(claims: dict[str, object], name: str) -> object:
    """Return a claim, None if there is none of this name, or at the end of this path."""
    if not name.startswith("/"):
        return claims.get(name)
    found: object = claims
    for step in name[1:].split("/"):
        found = (
            found.get(step.replace("~1", "/").replace("~0", "~"))
            if isinstance(found, dict)
            else None
        )
    return found


def _audiences(claims: dict[str, object]) -> list[str]:
    found = claims.get("aud")
    return [
        each for each in (found if isinstance(found, list) else [found]) if isinstance(each, str)
    ]


def _ms(value: object) -> int | None:
    """Return a NumericDate (seconds since the epoch) in ms; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value * 1000) if 0 <= value < MAX_TIME_S else None


def _is_text(name: str) -> bool:
    """Return whether a name can be encoded; half of a surrogate pair cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return bool(name)


def _is_group(name: str) -> bool:
    return len(name) <= MAX_GROUP_CHARS and name.isprintable() and _is_text(name)
