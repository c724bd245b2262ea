"""What one request names, and the rights that it asks for: its names, looked up in the table of rights.

- They are in the table's order, and in the request's; each once.
- They are made when they are asked for: one for each name costs as much as reading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.authorization import RESOURCE_APIS, Ask, Operation, ResourceType, checks_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wire.apis import Api
    from wire.authorization import Check
    from wire.request_names import RequestNames
    from wire.topic_refs import TopicRef

_new: Final = tuple.__new__


def asks_of(api: Api, names: RequestNames) -> tuple[Ask, ...]:
    """Return the rights that a request with these names asks for.

    Raises LookupError for a version of which they are not known (`wire.authorization.is_authorized`).
    """
    found: list[Ask] = []
    for check in checks_of(api):
        operation, code = check.operation, check.code
        found += [_new(Ask, (check.kind, name, operation, code)) for name in _asked(check, names)]
    return tuple(found)


def _asked(check: Check, names: RequestNames) -> Iterable[str | bytes | None]:
    """Return what a check is about, each once."""
    match check.kind:
        case ResourceType.GROUP:
            return dict.fromkeys(names.groups)
        case ResourceType.TRANSACTIONAL_ID:
            return dict.fromkeys(names.transactional_ids)
        case ResourceType.CLUSTER:
            return [act for act in names.acts if act == check.act]
    if check.operation is Operation.CREATE:
        return dict.fromkeys(names.created)
    found: dict[str | bytes | None, None] = dict.fromkeys(topic.key for topic in names.topics)
    if names.has_pattern:
        found[None] = None
    return found


class NamesReader:
    """A request with `names`: what it names, and the rights that it asks for."""

    __slots__ = ()

    names: RequestNames | None

    if TYPE_CHECKING:

        @property
        def api(self) -> Api:
            """The facts about this API and version."""

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Return `Request.asks`. Raises LookupError if the names were not read."""
        return asks_of(self.api, self._known()) if self.api.key in RESOURCE_APIS else ()

    @property
    def topics(self) -> tuple[TopicRef, ...]:
        """Return `RequestNames.topics`. Raises LookupError if the names were not read."""
        return self._known().topics

    @property
    def groups(self) -> tuple[str, ...]:
        """Return `RequestNames.groups`. Raises LookupError if the names were not read."""
        return self._known().groups

    @property
    def topics_complete(self) -> bool:
        """Return `RequestNames.topics_complete`. Raises LookupError if the names were not read."""
        return self._known().topics_complete

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """Return `RequestNames.transactional_ids`. Raises LookupError if the names were not read."""
        return self._known().transactional_ids

    @property
    def acts(self) -> tuple[str, ...]:
        """Return `RequestNames.acts`. Raises LookupError if the names were not read."""
        return self._known().acts

    @property
    def created(self) -> tuple[str, ...]:
        """Return `RequestNames.created`. Raises LookupError if the names were not read."""
        return self._known().created

    @property
    def has_pattern(self) -> bool:
        """Return `RequestNames.has_pattern`. Raises LookupError if the names were not read."""
        return self._known().has_pattern

    def _known(self) -> RequestNames:
        if self.names is None:
            raise LookupError(
                "the names in a request are there with Need.TOPICS, until the verdict"
            )
        return self.names
