"""`access` under random valid messages: nothing reaches the broker, and nothing is told, without a right.

- One session at a time, in this process. The requests are those of `grammar`: every API and version that is offered.
- What reaches the broker is decoded by the codec, which Sluice's own readers do not use. It may name what the client
  has a right to, and nothing else. An API that needs an act on the cluster must not come at all.
- The broker answers by `grammar`, about topics and groups that no client has a right to (SECRETS). Of what a request
  has not named, as in LISTINGS, a reply names only what the client has a right to.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from policies.access.config import AccessConfig
from policies.access.policy import Access
from policies.testing import BenchHost
from policies.validation import try_convert
from tests.fuzz import grammar
from tests.fuzz.peers import is_silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api
from wire.authorization import RESOURCE_APIS, ResourceType, checks_of
from wire.errors import WireError
from wire.primitives import skip_string

OWN: Final = frozenset({"t", "group"})
RIGHTS: Final[dict[str, list[dict[str, Any]]]] = {
    "nothing": [{"who": ["nobody"], "topics": {"t": ["all"]}}],
    "a topic and a group": [
        {
            "who": ["ANONYMOUS"],
            "topics": {"t": ["read", "write"]},
            "groups": {"group": ["read"]},
        }
    ],
}
"""Rules by what they give to the client."""
SECRETS: Final = {b"fuzz-topic": b"secret-top", b"user": b"secr"}
"""What the broker says in place of a text of the grammar, so that no request has said it."""
_SECRET: Final = frozenset(each.decode() for each in SECRETS.values())
LISTINGS: Final = {
    "Metadata": {"name"},
    "ListGroups": {"group_id"},
    "ListTransactions": {"transactional_id"},
    "DescribeTopicPartitions": {"name", "topic_name"},
    "DescribeTransactions": {"topic"},
    "ConsumerGroupDescribe": {"topic_name"},
    "ShareGroupDescribe": {"topic_name"},
}
"""Replies that name more than their requests, and the fields in which they do."""
_NAMES: Final = frozenset({"topic", "topic_name", "group_id", "transactional_id"})
_LISTS: Final = frozenset({"topics", "responses", "topic_data", "markers"})
"""Lists whose items have the name of a topic in `name`."""
_STRINGS: Final = frozenset(
    {
        *("topic_names", "groups", "group_ids", "groups_names", "transactional_ids"),
        *("coordinator_keys", "subscribed_topic_names", "source_topics"),
        *("repartition_sink_topics", "v3_and_below_transactional_id", "subscribed_topic_regex"),
    }
)
_NOT_ASKED: Final = frozenset(
    {"cursor", "forgotten_topics_data", "members", "topology_description"}
)
"""Parts of a request that ask for nothing, as in Kafka."""
_HEAD: Final = struct.Struct(">ihhi")
_ATTRIBUTES_AT: Final = 21
"""Of a record batch: its int16."""
_TRANSACTIONAL: Final = 0x10
_SHARE_KEYS: Final = 6
"""The first FindCoordinator that knows the keys of share groups."""
MAX_REQUESTS: Final = 50
"""In one session."""


class AccessFuzz:
    """Plays clients; counts what came of their requests."""

    def __init__(self, kind: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._own = OWN if kind != "nothing" else frozenset[str]()
        self._config, problems = try_convert(AccessConfig, {"rules": RIGHTS[kind]}, "config")
        assert not problems
        self.sent = 0
        self.forwarded: Counter[str] = Counter()
        self.answered = 0

    def play(self, messages: int) -> None:
        """Send so many messages. Raises AssertionError if one gets or tells too much."""
        while self.sent < messages:
            self._session(min(MAX_REQUESTS, messages - self.sent))

    def _session(self, count: int) -> None:
        host = BenchHost("access", has_custody=True)
        engine = make_engine([Access(self._config, host)])
        engine.rewrites.learn({b"\x01" * 16: "fuzz-topic"})
        host.topics = engine.rewrites.topics
        wire = Wire(engine)
        asked: dict[int, tuple[Api, frozenset[str]]] = {}
        for correlation_id in range(1, count + 1):
            api = self._chance.choice(grammar.apis())
            frame = grammar.request(api, correlation_id, self._chance)
            asked[correlation_id] = api, _said(api, frame)
            self.sent += 1
            at_broker, at_client = len(wire.to_broker), len(wire.to_client)
            wire.client(frame)
            for _ in range(2):  # a question of Sluice's own comes before the request
                at_broker = self._answer(wire, at_broker)
            self._check_replies(wire.to_client[at_client:], asked)
            if wire.session.ended:
                return

    def _answer(self, wire: Wire, at: int) -> int:
        """Check and answer what the broker got from this offset on; return the offset after it."""
        data = wire.to_broker
        while at < len(data):
            size, key, version, correlation_id = _HEAD.unpack_from(data, at)
            api = BY_KEY_AND_VERSION[key << 16 | version]
            frame, at = data[at : at + 4 + size], at + 4 + size
            self._check_request(api, frame)
            if not wire.session.ended and not is_silent(frame, api):
                reply = grammar.reply(api, correlation_id, self._chance)
                for text, secret in SECRETS.items():
                    reply = reply.replace(text, secret)
                wire.broker(reply)
        return at

    def _check_request(self, api: Api, frame: bytes) -> None:
        if _client_id(frame) == b"sluice":
            return  # Sluice's own question for names
        self.forwarded[api.name] += 1
        if api.key not in RESOURCE_APIS:
            return
        acts = [each for each in checks_of(api) if each.kind is ResourceType.CLUSTER]
        always = acts and len(acts) == len(checks_of(api))
        assert not always, f"{api.name} v{api.version} went to the broker: {frame.hex()}"
        beyond = _said(api, frame) - self._own - {""}
        assert not beyond, f"{api.name} v{api.version} names {beyond}: {frame.hex()}"

    def _check_replies(self, data: bytes, asked: dict[int, tuple[Api, frozenset[str]]]) -> None:
        for frame in f.split(data):
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            api, said = asked[correlation_id]
            self.answered += 1
            if not codec.is_known(api) or api.name not in LISTINGS:
                continue
            try:
                reply = codec.decode_response(api, frame[8 + api.response_header_version :])
            except WireError:
                continue
            told = {name for field, name in _named(reply) if field in LISTINGS[api.name]}
            beyond = told - said - self._own - {""}
            assert not beyond & _SECRET, f"{api.name} v{api.version} tells {beyond}: {frame.hex()}"


def _said(api: Api, frame: bytes) -> frozenset[str]:
    """Return what a request names; nothing if the codec cannot read it."""
    if not codec.is_known(api):
        return frozenset()
    try:
        request = codec.decode_request(api, frame[_body_at(api, frame) :])
    except WireError:
        return frozenset()
    if getattr(request, "key_type", 0) not in range(3 if api.version >= _SHARE_KEYS else 2):
        return frozenset()  # FindCoordinator of nothing that Kafka knows
    leaves_out = set() if _is_transactional(request) else {"transactional_id"}
    return frozenset(name for field, name in _named(request) if field not in leaves_out)


def _is_transactional(request: Any) -> bool:
    """Return False for a Produce without a transactional batch: Kafka does not look at its transactional id."""
    batches = [
        part.records or b""
        for topic in getattr(request, "topic_data", ())
        for part in topic.partition_data
    ]
    return not hasattr(request, "topic_data") or any(
        len(each) > _ATTRIBUTES_AT + 1 and each[_ATTRIBUTES_AT + 1] & _TRANSACTIONAL
        for each in batches
    )


def _named(message: Any, parent: str = "") -> Iterator[tuple[str, str]]:
    """Yield the field and the text of each name in a message."""
    for field in fields(message):
        value, name = getattr(message, field.name), field.name
        if name in _NOT_ASKED or (name == "name" and getattr(message, "topic_id", None)):
            continue  # where there is an id, Kafka looks at no name
        if is_dataclass(value):
            yield from _named(value, name)
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            for each in value:
                yield from _named(each, name)
        elif isinstance(value, tuple) and name in _STRINGS:
            yield from ((name, each) for each in value)
        elif isinstance(value, str) and (
            name in _NAMES or name in _STRINGS or _is_topic(name, parent)
        ):
            yield name, value


def _is_topic(name: str, parent: str) -> bool:
    return name == "name" and parent in _LISTS


def _body_at(api: Api, frame: bytes) -> int:
    at = 12
    if api.request_header_version:
        at = skip_string(frame, at, len(frame))
    return at + (api.request_header_version == 2)


def _client_id(frame: bytes) -> bytes:
    (length,) = struct.unpack_from(">h", frame, 12)
    return frame[14 : 14 + max(length, 0)]
