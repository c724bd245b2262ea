"""`audit`: adds to the lines of the audit log which topics and groups an administrative request names, and what failed.

    audit: {file: /var/log/sluice/audit.jsonl}
    policies:
      - use: audit

Rules:
- It refuses and changes nothing. Requests and replies of administrative APIs are kept whole, others are not touched.
- Only names and error codes leave a body: no config value, no password, no token.
- Items that were done stand in a list of their own, so that no number of failures hides them. It has MAX_DONE; topics,
  groups and errors have MAX_NAMES each. Further ones are counted by list. A name is cut to MAX_NAME_CHARS.
- A request that cannot be read passes, and its line says why it has no names.
- The code that reads requests and replies is made once per process, with the first entry: a third of a second, at the
  start or in the thread of a reload. No request waits for it.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from policies.api import FORWARD, Host, Need, Policy
from policies.audit_facts import AuditFacts, AuditItem
from policies.decision import error_name
from wire import reply_steps, request_names
from wire.apis import ADMINISTRATIVE, OFFERED, known
from wire.errors import WireError
from wire.request_layouts import names_anything

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.api import Forward, Outcome, Peer, Request, Result
    from wire.reply_errors import ErrorKey

MAX_NAMES: Final = 100
MAX_DONE: Final = 1_000
MAX_NAME_CHARS: Final = 255


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """There are no settings: the file is `audit.file`."""


class _Names(NamedTuple):
    """The names in one request, cut and counted."""

    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    left_out: Mapping[str, int] = MappingProxyType({})
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
        _prepare()

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
        left_out, unread = dict(names.left_out), names.unread
        failed = done = None
        errors = result.errors
        if errors is not None:
            unread = unread or errors.unread
            if not errors.unread:
                failed = tuple(_item(key, code) for key, code in islice(errors.items(), MAX_NAMES))
                done_keys = [key for key in errors.done() if key is not None]
                done = tuple(_item(key, 0) for key in done_keys[:MAX_DONE])
                left_out |= _left_out(errors=len(errors) - len(failed))
                left_out |= _left_out(done=len(done_keys) - len(done))
        request.tell_audit(AuditFacts(names.topics, names.groups, failed, left_out, unread, done))


@cache
def _prepare() -> None:
    for key in sorted(Audit.apis):
        first, last = OFFERED[key]
        for version in range(first, last + 1):
            if (api := known(key, version)) is not None:
                if names_anything(key):
                    request_names.prepare(api)
                reply_steps.prepare(api)


def _names_in(request: Request, body: bytes, host: Host) -> _Names:
    try:
        names = request_names.read_names(request.api, body, 0, len(body), {})
    except WireError as error:
        return _Names(unread=str(error))
    topics = dict.fromkeys(
        topic.name or host.topic_name(topic.topic_id or b"") or _text(topic.topic_id or b"")
        for topic in names.topics
    )
    groups = dict.fromkeys(names.groups)
    left_out = _left_out(topics=len(topics) - MAX_NAMES, groups=len(groups) - MAX_NAMES)
    return _Names(_cut(topics), _cut(groups), left_out)


def _left_out(**counts: int) -> dict[str, int]:
    return {member: count for member, count in counts.items() if count > 0}


def _item(key: ErrorKey, code: int) -> AuditItem:
    labels = list(key) if isinstance(key, tuple) else [] if key is None else [key]
    partition = labels.pop() if len(labels) > 1 else None
    if not isinstance(partition, int):
        labels += [] if partition is None else [partition]
        partition = None
    name = "/".join(map(_text, labels))
    return AuditItem(name[:MAX_NAME_CHARS], partition, error_name(code) if code else "")


def _text(label: str | bytes | int) -> str:
    """Return a name, or a topic's id as Kafka prints it."""
    if isinstance(label, bytes):
        return urlsafe_b64encode(label).decode().rstrip("=")
    return str(label)


def _cut(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name[:MAX_NAME_CHARS] for name in islice(names, MAX_NAMES))
