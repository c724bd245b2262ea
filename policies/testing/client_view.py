"""The reply as a client reads it: Kafka's name of each error, whether it may try again, and the message beside it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from policies.api import Forward, Hold, Reject, Respond, Throttle
from policies.decision import refusal_message
from policies.denial import Deny
from policies.division import divided
from policies.responses import Replace
from wire import codec
from wire.errors import RETRIABLE, ErrorCode, WireError
from wire.replies import error_body
from wire.reply_joins import add_items
from wire.request_names import read_names

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from policies.api import Verdict
    from policies.division import Division, Label
    from wire.apis import Api

_BROKERS: Final = ((1, "localhost", 9092),)
_CODES: Final = ("error_code", "partition_error_code")
_LABELS: Final = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "key",
    "resource_name",
    "transactional_id",
    "index",
    "partition",
    "partition_index",
)


class ClientError(NamedTuple):
    """One error of a reply."""

    item: str
    """The topic, partition, group or resource that it is about: `orders-0`; empty: the whole request."""
    name: str
    """Kafka's name of the code."""
    retriable: bool
    """Whether Java's producer, consumer and admin client try again by themselves (`RetriableException`)."""
    message: str
    """The text beside the code; empty if this version of the API has no place for one."""


@dataclass(frozen=True)
class ClientView:
    """A reply as its client reads it."""

    errors: tuple[ClientError, ...] = ()
    waits_ms: int = 0
    """How long the client waits: the throttle, or the longest time of a hold."""
    closed: bool = False
    """Whether the connection ends, with or without a reply before."""
    message: object = field(default=None, compare=False)
    """The decoded reply; None if the broker or no one replies."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all errors."""
        return frozenset(each.name for each in self.errors)

    @property
    def retriable(self) -> bool:
        """Whether there are errors, and each of them is retriable."""
        return bool(self.errors) and all(each.retriable for each in self.errors)


def client_view(
    api: Api,
    body: bytes,
    verdict: Verdict,
    *,
    policy: str,
    is_silent: bool = False,
    topics: Mapping[bytes, str] | None = None,
) -> ClientView:
    """Return the view of the client after this verdict on its request or on its reply.

    `body` is the request's. `is_silent` is a request without a reply (acks=0): a refusal ends its connection. `topics`
    are names by id. Of a request that is refused in part, the broker answers the rest without an error. Raises
    WireError if a policy's own reply cannot be decoded.
    """
    waits_ms = 0
    if isinstance(verdict, Throttle):
        waits_ms, verdict = verdict.throttle_time_ms, verdict.forward
    if isinstance(verdict, Hold):
        waits_ms, verdict = verdict.max_delay_ms, verdict.then
    denials = verdict.denials if isinstance(verdict, Forward) else ()
    if isinstance(verdict, Deny):
        denials = (verdict,)
    if denials:
        view = _refused_in_part(api, body, denials, policy, topics or {}, is_silent=is_silent)
        return replace(view, waits_ms=waits_ms)
    if isinstance(verdict, Forward):
        return ClientView(waits_ms=waits_ms)
    if is_silent:
        return ClientView(waits_ms=waits_ms, closed=isinstance(verdict, Reject))
    closes = False
    if isinstance(verdict, Respond | Replace):
        reply = verdict.body
    else:
        assert isinstance(verdict, Reject)  # noqa: S101 - the last kind of verdict
        try:
            words = refusal_message(policy, verdict)
            reply = error_body(api, body, verdict.code, words, _BROKERS)
        except WireError:  # no shape for it: the connection ends
            return ClientView(waits_ms=waits_ms, closed=True)
        closes = verdict.closes(api.name)
    message = codec.decode_response(api, reply)
    return ClientView(tuple(_errors(message, (), topics or {})), waits_ms, closes, message)


def _refused_in_part(
    api: Api,
    body: bytes,
    denials: tuple[Deny, ...],
    policy: str,
    topics: Mapping[bytes, str],
    *,
    is_silent: bool,
) -> ClientView:
    """Return the view of the client after these denials."""

    def rejecting(label: Label) -> Reject:
        return Reject(label[1], message=denials[label[0]].message)

    def words_of(label: Label) -> str:
        return refusal_message(denials[label[0]].policy or policy, rejecting(label))

    names = read_names(api, body, 0, len(body), topics)
    refused, rest, added, reply = _result_of(
        divided(api, body, 0, names, denials, words_of, _BROKERS)
    )
    if not refused:
        return ClientView()
    if is_silent:
        return ClientView(closed=True)
    if rest is not None:
        answered = error_body(api, rest, ErrorCode.NONE, None, _BROKERS)
        reply = add_items(api, answered, 0, len(answered), added)
    if reply is None:
        verdict, name = rejecting(refused[0]), denials[refused[0][0]].policy or policy
        return client_view(api, body, verdict, policy=name, topics=topics)
    closes = any(rejecting(label).closes(api.name) for label in refused)
    message = codec.decode_response(api, reply)
    return ClientView(tuple(_errors(message, (), topics)), closed=closes, message=message)


def _result_of(work: Generator[None, None, Division]) -> Division:
    """Return what work in turns comes to."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Division = end.value
            return found


def _errors(
    message: object, path: tuple[str, ...], topics: Mapping[bytes, str]
) -> Iterator[ClientError]:
    if isinstance(message, tuple):
        for each in message:
            yield from _errors(each, path, topics)
    if not is_dataclass(message):
        return
    labels = (_label(getattr(message, name, None), topics) for name in _LABELS)
    path = (*path, *filter(None, labels))
    for name in _CODES:
        code = getattr(message, name, 0)
        if code:
            text = getattr(message, "error_message", None) or ""
            known = ErrorCode(int(code))
            yield ClientError("-".join(path), known.name, known in RETRIABLE, text)
    for each in fields(message):
        yield from _errors(getattr(message, each.name), path, topics)


def _label(value: object, topics: Mapping[bytes, str]) -> str:
    if isinstance(value, UUID):
        return topics.get(value.bytes, str(value))
    return str(value) if isinstance(value, str | int) else ""
