"""Translates Kafka's ACLs into rules of `access` that give the same rights.

Rules:
- What cannot be said exactly is an `Unsaid`. Then an allow is left out, and a deny is written wider: the rules never
  give more than the ACLs, unless an Unsaid says so (`gives_more`).
- Kafka's `*` fits internal topics too, and `User:*` fits clients without authentication. Both are written out.
- CREATE on the cluster is `create` on all topics. Its other operations are the acts of the same operation.
- A denied right that no rule can give needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.config import OPERATIONS
from policies.access.patterns import INTERNAL
from policies.who import NAMELESS, PROOFS
from proxy.cli.access_verdict import newest_version
from proxy.cli.kafka_acls import ANY_HOST, EVERYTHING
from proxy.cli.rule_lines import RuleLines
from wire.apis import find
from wire.authorization import ACTS, AUTHORIZED, checks_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.cli.kafka_acls import Acl
    from proxy.cli.rule_lines import RuleText

_KINDS: Final = {"TOPIC": "topics", "GROUP": "groups", "TRANSACTIONAL_ID": "transactions"}
_IMPLIED: Final = {"ALTER": "DESCRIBE", "ALTER_CONFIGS": "DESCRIBE_CONFIGS"}
_TOKENS: Final = "tokens"
EVERYONE: Final = ("*", *NAMELESS)
"""`User:*`: every authenticated user, and clients without a name."""
CREATE: Final = "create"


class Unsaid(NamedTuple):
    """An entry that no rule says exactly."""

    acl: Acl
    why: str
    gives_more: bool = False
    """Whether the rules without it give more rights than the ACLs: it denies."""


class Translation(NamedTuple):
    """Rules, and what they do not say."""

    rules: tuple[RuleText, ...]
    unsaid: tuple[Unsaid, ...]


class _Lines(RuleLines):
    """What has been translated."""

    def __init__(self) -> None:
        super().__init__()
        self.unsaid: list[Unsaid] = []


def translate(acls: Iterable[Acl]) -> Translation:
    """Return the rules that give what the entries give."""
    acls = tuple(dict.fromkeys(acls))
    lines = _Lines()
    for acl in acls:
        who = _who(acl, lines)
        if who and not _is_by_host(acl, lines):
            if acl.resource_type in _KINDS:
                _add_names(acl, who, lines)
            elif acl.resource_type == "CLUSTER":
                _add_acts(acl, who, lines, acls)
            elif acl.permission == "ALLOW":
                words = "rules give tokens of all owners together (the act tokens)"
                lines.unsaid.append(Unsaid(acl, words))
    return Translation(lines.rules(), tuple(lines.unsaid))


def _who(acl: Acl, lines: _Lines) -> tuple[str, ...]:
    """Return the texts of `who`; none if there are none, which is noted."""
    kind, _, name = acl.principal.partition(":")
    if kind == "User" and name == EVERYTHING:
        return EVERYONE
    way, colon, _ = name.partition(":")
    is_way = bool(colon) and way in {*PROOFS, "team", "client"}
    if kind != "User" or not name or name == "UNKNOWN":
        lines.unsaid.append(Unsaid(acl, "no rule is about such a principal", _denies(acl)))
        return ()
    if "*" not in name and not is_way:
        return (name,)
    # A longer name that begins so is denied with it.
    wider = f"{way if is_way else name.partition('*')[0]}*"
    words = "a name like it means several users in a rule"
    if acl.permission == "ALLOW":
        lines.unsaid.append(Unsaid(acl, words))
        return ()
    lines.unsaid.append(Unsaid(acl, f"{words}; it is denied to {wider}"))
    return (wider,)


def _is_by_host(acl: Acl, lines: _Lines) -> bool:
    """Return whether an entry is left out because it is for one address only."""
    if acl.host == ANY_HOST:
        return False
    if acl.permission == "ALLOW":
        lines.unsaid.append(Unsaid(acl, "rules know no addresses of clients"))
        return True
    lines.unsaid.append(Unsaid(acl, "rules know no addresses of clients; it is denied from all"))
    return False


def _denies(acl: Acl) -> bool:
    return acl.permission == "DENY"


def _add_names(acl: Acl, who: tuple[str, ...], lines: _Lines) -> None:
    key = _KINDS[acl.resource_type]
    operation = acl.operation.lower().replace("_", "-")
    if operation != "all" and operation not in OPERATIONS[key]:
        if acl.permission == "ALLOW":
            words = f"rules know no {operation} of {key}: {', '.join(OPERATIONS[key])}"
            lines.unsaid.append(Unsaid(acl, words))
        return
    for pattern in _patterns(acl, lines):
        lines.add(who, key, pattern, [operation], allows=acl.permission == "ALLOW")


def _patterns(acl: Acl, lines: _Lines) -> tuple[str, ...]:
    """Return the patterns that fit the same names; none if there are none, which is noted."""
    name = acl.name
    if acl.pattern_type == "LITERAL" and name == EVERYTHING:
        return ("*", f"{INTERNAL}*")
    if acl.pattern_type not in {"LITERAL", "PREFIXED"} or not name:
        lines.unsaid.append(Unsaid(acl, "no rule has such a pattern", _denies(acl)))
        return ()
    if "*" in name:
        words = "a name with * means several names in a rule"
        if acl.permission == "ALLOW":
            lines.unsaid.append(Unsaid(acl, words))
            return ()
        beginning = name.partition("*")[0]
        lines.unsaid.append(Unsaid(acl, f"{words}; {beginning}* is denied"))
        return _with_internal(beginning)
    return _with_internal(name) if acl.pattern_type == "PREFIXED" else (name,)


def _with_internal(beginning: str) -> tuple[str, ...]:
    """Return the patterns of the names that begin so; a short beginning fits no internal topic by itself."""
    if len(beginning) < len(INTERNAL) and INTERNAL.startswith(beginning):
        return (f"{beginning}*", f"{INTERNAL}*")
    return (f"{beginning}*",)


def _add_acts(acl: Acl, who: tuple[str, ...], lines: _Lines, acls: tuple[Acl, ...]) -> None:
    allows = acl.permission == "ALLOW"
    operation = acl.operation
    if operation in {"CREATE", "ALL"}:
        _add_creation(acl, who, lines, acls)
    if operation == "ALL":
        acts = [act for act in ACTS if act != _TOKENS]
        if allows:
            words = "it also gives DELETE of all topics and what brokers do; these are left out"
            lines.unsaid.append(Unsaid(acl, words))
    else:
        wanted = {operation, _IMPLIED.get(operation, "")} if allows else {operation}
        acts = [act for act, asked in _operations_of_acts().items() if asked in wanted]
        if not acts and allows and operation != "CREATE":
            words = (
                "no rule gives what brokers do"
                if operation == "CLUSTER_ACTION"
                else "no act needs it"
            )
            lines.unsaid.append(Unsaid(acl, words))
    if acts:
        lines.add(who, "cluster", "", acts, allows=allows)


def _add_creation(acl: Acl, who: tuple[str, ...], lines: _Lines, acls: tuple[Acl, ...]) -> None:
    """Add CREATE on the cluster. In Kafka it is enough by itself: no denied topic takes it away."""
    others = [each for each in acls if each.operation in {"CREATE", "ALL"}]
    if acl.permission == "ALLOW":
        if any(_denies(each) and each.resource_type == "TOPIC" for each in others):
            words = "denied topics take CREATE on the cluster away, which they do not in Kafka"
            lines.unsaid.append(Unsaid(acl, words))
    elif any(not _denies(each) and each.resource_type == "CLUSTER" for each in others):
        words = "rules have no right to create all topics; create is denied on all topics"
        lines.unsaid.append(Unsaid(acl, words))
    else:
        return
    for pattern in ("*", f"{INTERNAL}*"):
        lines.add(who, "topics", pattern, [CREATE], allows=acl.permission == "ALLOW")


def _operations_of_acts() -> dict[str, str]:
    """Return the operation of each act but `tokens`."""
    found = {}
    for key in AUTHORIZED:
        version = newest_version(key)
        api = None if version is None else find(key, version)
        for check in () if api is None else checks_of(api):
            if check.act in ACTS and check.act != _TOKENS:
                found[check.act] = check.operation.name
    return found
