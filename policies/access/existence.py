"""Which of the topics in a refused request exist: Kafka's answer tells it to who may describe them.

- DeleteTopics answers a missing topic that may be described by UNKNOWN_TOPIC_OR_PARTITION, and an id that no topic has
  any more by UNKNOWN_TOPIC_ID. AddPartitionsToTxn, of which a topic is refused, answers a missing partition of those
  that may be written to so, and attempts none of the rest.
- The broker is asked for at most MAX_NAMES topics of a request. Only a request that is refused in part waits for it.
- Nothing is told of a name that may not be described; an id may be told to be gone, as Kafka tells it.
- Without an answer the refusal stays as it is.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from policies.topics_question import MAX_NAMES, TopicsQuestion
from wire.apis import ApiKey
from wire.authorization import Operation
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from policies.access.rights import Subject
    from policies.api import Request
    from policies.denial import DenyKey
    from wire.topic_existence import ExistingTopic

_DESCRIBE: Final = 1 << Operation.DESCRIBE
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Kafka: `Topic.LEGAL_CHARS`. No topic has another name, so none is asked for."""


def question_of(
    request: Request, subject: Subject, refused: Container[DenyKey]
) -> TopicsQuestion | None:
    """Return what the broker must be asked before this request is refused in part; None: nothing."""
    if request.api_key == ApiKey.DELETE_TOPICS:
        with_ids = any(topic.topic_id is not None for topic in request.topics)
        found = _deleted(request, subject, refused)
    elif request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        with_ids = False
        found = (each.name for each in request.topics if each.name and each.name not in refused)
    else:
        return None
    names = tuple(islice(dict.fromkeys(name for name in found if _NAME.fullmatch(name)), MAX_NAMES))
    return TopicsQuestion(names, with_ids=with_ids) if names else None


def _deleted(request: Request, subject: Subject, refused: Container[DenyKey]) -> Iterator[str]:
    """Yield the refused topics of a DeleteTopics of which it is told whether they exist."""
    for topic in request.topics:
        name = topic.name
        if name is None or name not in refused:
            continue
        if topic.topic_id is not None or subject.topic(name) & _DESCRIBE:
            yield name


def with_missing(
    request: Request,
    subject: Subject,
    codes: Mapping[DenyKey, int],
    found: Mapping[str, ExistingTopic | None],
) -> dict[DenyKey, int]:
    """Return these codes, with Kafka's for what the broker says is missing."""
    if request.api_key == ApiKey.DELETE_TOPICS:
        return _with_missing_topics(request, subject, codes, found)
    return _with_missing_partitions(request, codes, found)


def _with_missing_topics(
    request: Request,
    subject: Subject,
    codes: Mapping[DenyKey, int],
    found: Mapping[str, ExistingTopic | None],
) -> dict[DenyKey, int]:
    changed = dict(codes)
    for topic in request.topics:
        name = topic.name
        if name is None or name not in found or name not in codes:
            continue
        there = found[name]
        if topic.topic_id is not None:
            is_there = there is not None and there.topic_id == topic.topic_id
            changed[topic.topic_id] = codes[name] if is_there else ErrorCode.UNKNOWN_TOPIC_ID
        elif there is None and subject.topic(name) & _DESCRIBE:
            changed[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return changed


def _with_missing_partitions(
    request: Request, codes: Mapping[DenyKey, int], found: Mapping[str, ExistingTopic | None]
) -> dict[DenyKey, int]:
    changed = dict(codes)
    missing: dict[DenyKey, int] = {}
    for topic in request.topics:
        name = topic.name
        if name is None or name not in found or name in codes:
            continue
        there = found[name]
        if there is None:
            changed[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        beyond = (each for each in topic.partitions if not 0 <= each < there.partitions)
        left = MAX_NAMES - len(missing)  # a key of a partition costs more than one of a topic
        keys = ((name, each) for each in islice(beyond, left))
        missing |= dict.fromkeys(keys, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return changed | missing
