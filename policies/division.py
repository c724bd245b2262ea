"""A request of which policies deny a part: what is refused, what is left, and what is added to its reply.

Rules:
- The first right of the table that is denied decides if it refuses the whole request (`wire.authorization`); else each
  item is refused by its own code. The first policy that denies an item names its code.
- All others of a request that is attempted as one are refused by OPERATION_NOT_ATTEMPTED.
- A request that cannot be divided is refused whole. So is one of which a right is denied that its API does not need:
  its policy means something else than the table.
- A request of which nothing is left is forwarded all the same if its reply tells more than the items: of the group, or
  of the cluster; and in a share session, which counts its requests.
- What the names say is denied must be found among the items, which are read by other code: else the request is
  refused whole.
- It pauses in a large request.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wire.api_keys import ApiKey
from wire.authorization import Ask, Check, Operation, ResourceType, Scope, checks_of
from wire.errors import ErrorCode, WireError
from wire.item_arrays import Item, is_divisible, item_checks, item_layout
from wire.large_refusals import refusing_items
from wire.replies import empty_body
from wire.reply_joins import Additions, add_items
from wire.request_parts import Parts, dividing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from policies.denial import Deny
    from wire.apis import Api
    from wire.primitives import Buffer
    from wire.request_names import RequestNames

STEP_NAMES: Final = 1_000
"""Names that are compared with the denials between two pauses."""
_TELLS_MORE: Final = frozenset(
    {
        ApiKey.OFFSET_DELETE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
_CLUSTER_RIGHTS: Final = range(8, 11)
"""The versions of Metadata that can ask for the rights on the cluster."""
_TOPIC: Final = ResourceType.TOPIC
_ANY_TOPIC: Final = Check(
    _TOPIC, Operation.DESCRIBE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, Scope.REQUEST
)
"""Of an API that names topics, and needs no right on them by Kafka's rules: a denial of one refuses the request."""
Label: TypeAlias = "tuple[int, int]"
"""The place of a denial among the verdict's, and its code."""


class Division(NamedTuple):
    """What becomes of the request."""

    refused: tuple[Label, ...] = ()
    """The denials that apply, the first one first; none: it passes as it is."""
    rest: bytes | None = None
    """The body that is left for the broker."""
    added: Additions = Additions()
    """What is added to its reply."""
    reply: bytes | None = None
    """The body of the whole reply if nothing is left. Without it and without a rest, the request is refused whole by
    the first denial."""


def divided(
    api: Api,
    buf: Buffer,
    body_at: int,
    names: RequestNames,
    denials: Sequence[Deny],
    words_of: Callable[[Label], str],
    brokers: Iterable[tuple[int, str, int]] = (),
) -> Generator[None, None, Division]:
    """Return what becomes of the request whose body is buf[body_at:], and which names `names`.

    `words_of` returns the error message of a denial. `brokers` are those that a Metadata reply names.
    """
    labels = _Labels(denials)
    whole = yield from _refused_whole(api, names, labels)
    if whole is not None:
        return Division((whole,))
    refused = tuple(sorted((yield from _denied(item_checks(api), names, labels))))
    if not refused:
        return Division()
    if not is_divisible(api):
        return Division(refused[:1])
    labels.first = refused[0][0]
    is_one = any(check.scope is Scope.ALL_OR_NOTHING for check in item_checks(api))
    label_of = labels.with_others if is_one else labels.of
    try:
        # by the names that the policies saw
        name_of = {t.topic_id: t.name for t in names.topics if t.topic_id and t.name}
        parts = yield from dividing(api, buf, body_at, name_of, label_of)
        if not _has_all(api, parts, refused):
            return Division(refused[:1])
        added = yield from _additions(api, parts, words_of)
        if parts.items or tells_more(api):
            return Division(refused, parts.rest, added)
        base = empty_body(api, brokers)
        return Division(refused, reply=add_items(api, base, 0, len(base), added))
    except WireError:
        return Division(refused[:1])


def tells_more(api: Api) -> bool:
    """Return whether the reply tells more than the items: of the group, of a session, or of rights on the cluster."""
    return api.key in _TELLS_MORE or (api.key == ApiKey.METADATA and api.version in _CLUSTER_RIGHTS)


def _has_all(api: Api, parts: Parts[Label], refused: tuple[Label, ...]) -> bool:
    """Return whether all that is denied by the names was found among the items: both read the request.

    Topics of a denied group are not looked for: the group is refused.
    """
    found = {*parts.refused, *parts.inside}
    return bool(found) if item_layout(api).array.items is not None else found.issuperset(refused)


def _additions(
    api: Api, parts: Parts[Label], words_of: Callable[[Label], str]
) -> Generator[None, None, Additions]:
    items: list[bytes] = []
    for label, pieces in sorted(parts.refused.items()):
        items += yield from refusing_items(api, pieces, label[1], words_of(label))
    inside: dict[str, list[bytes]] = {}
    for label, by_group in sorted(parts.inside.items()):
        for group, pieces in by_group.items():
            topics = yield from refusing_items(api, pieces, label[1], words_of(label), inside=True)
            inside.setdefault(group, []).extend(topics)
    groups = {group: (b"".join(topics), len(topics)) for group, topics in inside.items()}
    return Additions(b"".join(items), len(items), groups)


class _Labels:
    """Which denial refuses an item: the first policy's."""

    def __init__(self, denials: Sequence[Deny]) -> None:
        self._denials = denials
        self._by_partition = any(denial.has_partitions for denial in denials)
        self._last: tuple[Item | None, Label | None] = (None, None)
        self.first = 0
        """The place of the first that applies."""

    def of(self, item: Item, partition: int | None) -> Label | None:
        """Return the denial of an item, or of one of its partitions; None without one."""
        if item is self._last[0]:
            return self._last[1]
        label = None
        for place, denial in enumerate(self._denials):
            code = denial.code_of(item, partition)
            if code is not None:
                label = place, code
                break
        if not self._by_partition:  # then it is the same for all partitions
            self._last = item, label
        return label

    def all_of(self, item: Item, partitions: tuple[int, ...]) -> set[Label]:
        """Return the denials of an item and of these partitions of it."""
        found = {self.of(item, each) for each in partitions or (None,)}
        return {label for label in found if label is not None}

    def with_others(self, item: Item, partition: int | None) -> Label:
        """Return the denial of an item that is attempted with others only: its own, or the first one's."""
        return self.of(item, partition) or (self.first, ErrorCode.OPERATION_NOT_ATTEMPTED)

    def beyond(self, checks: Iterable[Check]) -> list[Label]:
        """Return the denials of rights that are not among these."""
        known = {(check.kind, check.operation) for check in checks}
        return [
            (place, code)
            for place, denial in enumerate(self._denials)
            if not denial.asked <= known
            for key, code in denial.codes.items()
            if isinstance(key, Ask) and (key.kind, key.operation) not in known
        ]


def _refused_whole(
    api: Api, names: RequestNames, labels: _Labels
) -> Generator[None, None, Label | None]:
    """Return the denial that refuses the request whole; None if none does."""
    checks: tuple[Check, ...] = ()
    with suppress(LookupError):  # nothing is known of the rights that this version needs
        checks = checks_of(api)
    wholes = [check for check in checks if check.scope is Scope.REQUEST]
    if not any(check.kind is _TOPIC for check in checks):
        wholes.append(_ANY_TOPIC)
    found = yield from _denied(wholes, names, labels, first=True)
    return next(iter([*found, *labels.beyond(checks)]), None)


def _denied(
    checks: Iterable[Check], names: RequestNames, labels: _Labels, *, first: bool = False
) -> Generator[None, None, set[Label]]:
    """Return the denials of what these checks are about; with `first`, only of the first item that is denied."""
    found: set[Label] = set()
    items = chain.from_iterable(_items(check, names) for check in checks)
    for number, (item, partitions) in enumerate(items, 1):
        found |= labels.all_of(item, partitions)
        if first and found:
            break
        if not number % STEP_NAMES:
            yield
    return found


def _items(check: Check, names: RequestNames) -> Iterator[tuple[Item, tuple[int, ...]]]:
    """Yield what a check is about, with the partitions that are named."""
    kind = check.kind
    named: Iterable[str | None] = ()
    if kind is _TOPIC:
        for topic in names.topics:
            yield Item(kind, topic.name, topic.topic_id), topic.partitions
        named = (None,) if names.has_pattern else ()
    elif kind is ResourceType.GROUP:
        named = names.groups
    elif kind is ResourceType.TRANSACTIONAL_ID:
        named = names.transactional_ids
    elif check.act in names.acts:
        named = (check.act,)
    for name in named:
        yield Item(kind, name), ()
