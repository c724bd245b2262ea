"""What rules say of one request that is described in words: each right that it needs, in Kafka's order.

- The rights are those of the table in `wire.authorization`. One that depends on the body is judged as the words say:
  InitProducerId without a transaction writes idempotently, configs of neither topic nor group are the cluster's, and
  topics are created only if the request `creates` them.
- Tokens of a login of its own need no right, unless Sluice signs on to the brokers as itself.
- No client speaks as a broker here, so `replicate` is never judged: no rule can give it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.explain import IDEMPOTENT_WRITE, NO_RULE, reason_of
from policies.access.judgement import INTERNAL_TOPICS
from policies.access.tokens import TOKEN_APIS
from policies.type_names import nearest
from wire.api_keys import ApiKey
from wire.apis import OFFERED, find, key_of, name_of
from wire.authorization import AUTHORIZED, MAX_VERSIONS, Operation, ResourceType, Scope, checks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.access.explain import FittingRule, Reason
    from wire.apis import Api
    from wire.authorization import Check

WORDS: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transaction",
    ResourceType.CLUSTER: "cluster",
}
"""A kind as the options, the cases and the printed lines call it."""
_INTERNAL: Final = NO_RULE._replace(pattern="no transaction writes to Kafka's own topics")
REPLICATE: Final = "replicate"
_CONFIGS: Final = frozenset(
    {ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
)
_ONE_OF: Final = _CONFIGS | {ApiKey.FIND_COORDINATOR}
"""A request names one kind or several."""
_MAY_LACK: Final = {
    ApiKey.PRODUCE: ResourceType.TRANSACTIONAL_ID,
    ApiKey.INIT_PRODUCER_ID: ResourceType.TRANSACTIONAL_ID,
    **dict.fromkeys(
        (
            ApiKey.METADATA,
            ApiKey.OFFSET_FETCH,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.SHARE_FETCH,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ),
        ResourceType.TOPIC,
    ),
}
"""The kind that a request need not name."""


class Named(NamedTuple):
    """What a request names."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactions: Sequence[str] = ()
    pattern: bool = False
    """It selects topics by a regular expression."""
    creates: bool = False
    """Its topics do not exist yet, and it would create them."""

    def of(self, kind: ResourceType) -> Sequence[str]:
        """Return the names of a kind."""
        if kind == ResourceType.TOPIC:
            return self.topics
        return self.groups if kind == ResourceType.GROUP else self.transactions


class Judged(NamedTuple):
    """One right that the request needs."""

    check: Check
    name: str | None
    """Of the cluster: the act. None: of all topics."""
    reason: Reason

    @property
    def words(self) -> str:
        """Return operation, kind and name."""
        name = "*" if self.name is None else self.name
        return f"{self.check.operation.name} {WORDS[self.check.kind]} {name}"


class Verdict(NamedTuple):
    """What the rules say of a request. `rights` ends with the one that refuses the whole."""

    api: Api
    rights: tuple[Judged, ...]

    @property
    def is_allowed(self) -> bool:
        """Whether nothing of the request is refused."""
        return all(each.reason.is_allowed for each in self.rights)

    @property
    def decisive(self) -> Judged | None:
        """Return the first right that is refused, else the first of all; None if it needs none."""
        refused = (each for each in self.rights if not each.reason.is_allowed)
        return next(refused, self.rights[0] if self.rights else None)


def find_api(name: str, version: int | None) -> Api:
    """Return the API of this name and version, by default the newest that clients may use.

    Raises ValueError, which names what was found and what is expected.
    """
    names = [name_of(each) for each in AUTHORIZED if newest_version(each) is not None]
    key = key_of(name)
    highest = None if key is None else newest_version(key)
    if key is None or highest is None:
        close = nearest(name, names)
        known = "" if key is None else ", which no client may use"
        hint = f"; did you mean {close}?" if close and close != name else ""
        raise ValueError(f"found the API {name!r}{known}, expected one that Sluice offers{hint}")
    lowest = OFFERED[key][0]
    version = highest if version is None else version
    found = find(key, version) if lowest <= version <= highest else None
    if found is None:
        raise ValueError(
            f"found version {version} of {name}, expected one that is offered: {lowest}-{highest}"
        )
    return found


def newest_version(api_key: int) -> int | None:
    """Return the newest version that clients may use; None if they may use none."""
    if api_key not in AUTHORIZED or api_key not in OFFERED:
        return None
    return MAX_VERSIONS.get(api_key, OFFERED[api_key][1])


def verdict_of(
    rules: Sequence[FittingRule], api: Api, named: Named, *, owns_tokens: bool
) -> Verdict:
    """Return what the rules about a client say of its request. Raises ValueError for names that do not fit the API.

    `owns_tokens`: the brokers know the client's own login.
    """
    _check_names(api, named)
    if owns_tokens and api.key in TOKEN_APIS:
        return Verdict(api, ())
    rights: list[Judged] = []
    for check in checks_of(api):
        judged = [
            Judged(check, name, _reason(rules, check, name)) for name in _asked(api, check, named)
        ]
        rights += judged
        if check.scope == Scope.REQUEST and any(not each.reason.is_allowed for each in judged):
            break
    return Verdict(api, tuple(rights))


def _reason(rules: Sequence[FittingRule], check: Check, name: str | None) -> Reason:
    if check.scope is Scope.ALL_OR_NOTHING and name in INTERNAL_TOPICS:
        return _INTERNAL
    return reason_of(rules, check.kind, name, check.operation)


def _asked(api: Api, check: Check, named: Named) -> Iterator[str | None]:
    """Yield the names that a check is made for."""
    if check.kind != ResourceType.CLUSTER:
        if check.operation != Operation.CREATE or api.key == ApiKey.CREATE_TOPICS or named.creates:
            yield from named.of(check.kind)
        if named.pattern and (check.kind, check.operation) == (
            ResourceType.TOPIC,
            Operation.DESCRIBE,
        ):
            yield None
    elif check.act == REPLICATE:
        return
    elif check.act == IDEMPOTENT_WRITE:
        if not named.transactions:
            yield check.act
    elif api.key not in _CONFIGS or not (named.topics or named.groups):
        yield check.act


def _check_names(api: Api, named: Named) -> None:
    kinds = {check.kind: None for check in checks_of(api) if check.kind != ResourceType.CLUSTER}
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        if named.of(kind) and kind not in kinds:
            takes = " and ".join(WORDS[each] for each in kinds) or "nothing"
            raise ValueError(f"{api.name} needs no right on a {WORDS[kind]}, expected {takes}")
    if named.pattern and api.key not in _SUBSCRIBES:
        names = ", ".join(name_of(key) for key in _SUBSCRIBES)
        raise ValueError(f"{api.name} takes no pattern, expected one of {names}")
    lacks = [kind for kind in kinds if not named.of(kind)]
    if api.key in _ONE_OF:
        lacks = lacks if len(lacks) == len(kinds) and api.key not in _CONFIGS else []
    may_lack = _MAY_LACK.get(ApiKey(api.key))
    missing = [WORDS[kind] for kind in lacks if kind != may_lack]
    if missing:
        joined = (" or " if api.key in _ONE_OF else " and a ").join(missing)
        raise ValueError(f"{api.name} needs a {joined}")


_SUBSCRIBES: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT)
"""The requests that may select topics by a pattern."""
