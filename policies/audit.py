"""`audit`: adds to the lines of the audit log which topics and groups an administrative request names, and what failed.

    audit: {file: /var/log/sluice/audit.jsonl}
    policies:
      - use: audit

Rules:
- It refuses and changes nothing. Requests and replies of administrative APIs are kept whole, others are not touched.
- Only names and error codes leave a body: no config value, no password, no token.
- A line lists MAX_NAMES topics, groups and errors each; further ones are counted. A name is cut to MAX_NAME_CHARS.
- A request that cannot be read passes, and its line says why it has no names.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policies.api import FORWARD, Host, Need, Policy
from policies.audit_facts import AuditFacts, FailedItem
from policies.decision import error_name
from wire.administrative import ADMINISTRATIVE
from wire.apis import OFFERED
from wire.errors import WireError
from wire.request_layouts import names_anything
from wire.request_names import read_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.api import Forward, Outcome, Peer, Request, Result
    from wire.reply_errors import ErrorKey, ReplyErrors

MAX_NAMES: Final = 100
MAX_NAME_CHARS: Final = 255


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """There are no settings: the file is `audit.file`."""


class _Names(NamedTuple):
    """The names in one request, cut and counted."""

    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    left_out: int = 0
    unread: str = ""


class Audit(Policy):
    """Tells the audit log what administrative requests are about, and what came of them."""

    Config = AuditConfig
    apis = frozenset(key for key in ADMINISTRATIVE if key in OFFERED)
    hears_body = apis
    needs: Mapping[int, Need] = MappingProxyType(
        {key: Need.BODY for key in sorted(apis) if names_anything(key)}
    )

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        self._names: dict[int, _Names] = {}  # of requests in flight, by their id

    def adopt(self, previous: Policy) -> None:
        """Take over nothing: a request in flight ends under the policy that has judged it."""

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Note the names in the request; return FORWARD."""
        if request.body is not None and names_anything(request.api_key):
            self._names[request.id] = _names_in(request, request.body, self.host)
        return FORWARD

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        """Tell the audit log the names and the errors."""
        names = self._names.pop(request.id, _Names())
        found, left_out, unread = None, names.left_out, names.unread
        errors = result.errors
        if errors is not None:
            unread = unread or errors.unread
            if not errors.unread:
                found = _failed(errors)
                left_out += len(errors) - len(found)
        request.tell_audit(AuditFacts(names.topics, names.groups, found, left_out, unread))


def _names_in(request: Request, body: bytes, host: Host) -> _Names:
    try:
        names = read_names(request.api, body, 0, len(body), {})
    except WireError as error:
        return _Names(unread=str(error))
    topics = dict.fromkeys(
        topic.name or host.topic_name(topic.topic_id or b"") or _text(topic.topic_id or b"")
        for topic in names.topics
    )
    groups = dict.fromkeys(names.groups)
    return _Names(
        _cut(topics), _cut(groups), sum(max(0, len(each) - MAX_NAMES) for each in (topics, groups))
    )


def _failed(errors: ReplyErrors) -> tuple[FailedItem, ...]:
    return tuple(_item(key, code) for key, code in islice(errors.items(), MAX_NAMES))


def _item(key: ErrorKey, code: int) -> FailedItem:
    labels = list(key) if isinstance(key, tuple) else [] if key is None else [key]
    partition = labels.pop() if len(labels) > 1 else None
    if not isinstance(partition, int):
        labels += [] if partition is None else [partition]
        partition = None
    name = "/".join(map(_text, labels))
    return FailedItem(name[:MAX_NAME_CHARS], partition, error_name(code))


def _text(label: str | bytes | int) -> str:
    """Return a name, or a topic's id as Kafka prints it."""
    if isinstance(label, bytes):
        return urlsafe_b64encode(label).decode().rstrip("=")
    return str(label)


def _cut(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name[:MAX_NAME_CHARS] for name in islice(names, MAX_NAMES))
