"""Every reader of `wire` returns, asks for more bytes or raises WireError, for any bytes at all.

No other exception escapes. `throttle_at` has the same property in its own test.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of, name, survives
from tests.support.messages.sasl import bearer
from wire import (
    addresses,
    client_quotas,
    codec,
    delegation_tokens,
    fetch,
    header,
    metadata,
    produce_partitions,
    sasl,
    topic_existence,
)
from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey, find
from wire.batch_heads import read_batch_heads
from wire.config_resources import altered_kinds
from wire.errors import WireError
from wire.fetch_topics import FetchTopics
from wire.item_arrays import is_divisible
from wire.oauthbearer import bearer_names
from wire.produce import ProduceWalker, read_acks
from wire.produce_topics import ProduceTopics
from wire.reply_joins import Additions, add_items
from wire.request_layouts import names_anything
from wire.request_names import read_names
from wire.request_parts import dividing
from wire.schema import Shape
from wire.untagged_reply import UntaggedReply

SMALL = st.sampled_from(
    [b"\x00", b"\x01", b"\x02", b"\x03", b"\xff", b"\x00\x00\x00\x01", b"\xff\xff\xff\xff"]
)
ANY = st.binary(max_size=200) | st.lists(SMALL, max_size=60).map(b"".join)
"""Bytes of every kind, and those that look like counts: null, none, one, two."""


def told(*_: object) -> tuple[bytes, int]:
    return b"proxy", 19092


def framed(data: bytearray) -> bytearray:
    return bytearray(pack(">ii", len(data) + 4, 7) + data)


def versions_of(key: int) -> list[Api]:
    return [api for api in BY_KEY_AND_VERSION.values() if api.key == key]


ADDED = Additions(inside={"g": (b"", 0)})


def readers() -> dict[str, Callable[[bytearray], object]]:
    """Return every reader of bytes that come from outside, in every version."""
    found: dict[str, Callable[[bytearray], object]] = {
        "metadata brokers": lambda b: metadata.read_brokers(framed(b)),
        "mechanism": sasl.mechanism,
        "handshake error": sasl.handshake_error,
        "bearer": lambda b: bearer_names(bytes(b), "sub"),
        "bearer's token": lambda b: bearer_names(bearer("a.") + bytes(b), "sub"),
        "bearer's claims": lambda b: bearer_names(
            bearer(f"a.{urlsafe_b64encode(b).decode().rstrip('=')}.c"), "sub"
        ),
        "plain": lambda b: sasl.plain_names(bytes(b)),
        "scram": lambda b: sasl.scram_first(bytes(b)),
    }
    for version in range(3):
        found[f"request head {version}"] = lambda b, v=version: header.body_at(b, 0, len(b), v)
        found[f"reply head {version}"] = lambda b, v=version: header.response_body_at(
            b, 0, len(b), v
        )
        found[f"token {version}"] = lambda b, v=version: sasl.auth_bytes(b, v)
        found[f"authenticated {version}"] = lambda b, v=version: sasl.authenticate_reply(b, v)
    for api in BY_KEY_AND_VERSION.values():
        rewrite = addresses.rewriter(api)
        if rewrite is not None:
            found[f"addresses of {name(api)}"] = lambda b, r=rewrite: r(b, 0, len(b), told)
    for api in versions_of(ApiKey.METADATA):
        found[f"names of {name(api)}"] = lambda b, a=api: metadata.topic_names(b, 0, len(b), a)
    for version in (3, 9, 13):
        found[f"batch heads {version}"] = lambda b, v=version: read_batch_heads(b, v)
    for version in range(9, 14):
        found[f"one partition {version}"] = lambda b, v=version: UntaggedReply(v).matches(
            framed(b), 0, len(b) + 8
        )
    for version in range(14):
        found[f"acks {version}"] = lambda b, v=version: read_acks(b, 0, len(b), v)
        found[f"produce walker {version}"] = lambda b, v=version: ProduceWalker(v).feed(
            b, 0, len(b)
        )
        found[f"produce topics {version}"] = lambda b, v=version: ProduceTopics(v).feed(
            b, 0, len(b)
        )
        found[f"skeleton {version}"] = lambda b, v=version: produce_partitions.pack_topics(
            b, 0, len(b), v
        )

    for version in range(4, 14):
        found[f"unknown topics {version}"] = lambda b, v=version: topic_existence.unknown_topics(
            find(ApiKey.METADATA, v), b, {"a"}
        )
    for with_ids in (False, True):
        found[f"existence {with_ids}"] = lambda b, w=with_ids: topic_existence.read_existence(
            framed(b), with_ids=w
        )
    for api in versions_of(ApiKey.CREATE_DELEGATION_TOKEN):
        found[f"owner in {name(api)}"] = partial(delegation_tokens.owner_asked_for, api)
    for api in versions_of(ApiKey.DESCRIBE_DELEGATION_TOKEN):
        found[f"own of {name(api)}"] = lambda b, a=api: delegation_tokens.tokens_of(
            a, bytes(b), ("User", "a")
        )
    found["share session"] = fetch.read_share_session
    for version in range(18):
        found[f"fetch head {version}"] = lambda b, v=version: fetch.read_head(b, 0, len(b), v)
        found[f"fetch topics {version}"] = lambda b, v=version: FetchTopics(v).feed(b, 0, len(b))
    for api in versions_of(ApiKey.ALTER_CLIENT_QUOTAS):
        found[f"read {name(api)}"] = partial(client_quotas.read_alter, api)
    for api in versions_of(ApiKey.DESCRIBE_CLIENT_QUOTAS):
        found[f"read {name(api)}"] = partial(client_quotas.read_describe, api)
    for api in BY_KEY_AND_VERSION.values():
        if names_anything(api.key):
            found[f"names in {name(api)}"] = lambda b, a=api: read_names(a, b, 0, len(b), {})
        if is_divisible(api):
            found[f"join {name(api)}"] = lambda b, a=api: add_items(a, b, 0, len(b), ADDED)
            found[f"parts of {name(api)}"] = lambda b, a=api: list(
                dividing(a, b, 0, {}, lambda *_: 1)
            )
        if api.key in delegation_tokens.APIS:
            found[f"tokens in {name(api)}"] = lambda b, a=api: list(
                delegation_tokens.owners_in(a, bytearray(2) + b, 0, len(b) + 2)
            )
    return found


READERS = readers()


@for_each(READERS, examples=15, of=ANY)
def test_any_bytes_are_read_or_refused(reader, data):
    """A reader of any bytes raises no exception but WireError."""
    survives(READERS[reader], bytearray(data))


@given(api=st.sampled_from(apis_known()), data=ANY, is_request=st.booleans())
def test_any_body_is_decoded_or_refused(api, data, is_request):
    """Decoding any body raises no exception but WireError,
    because its structure is checked before the codec reads it.
    """
    survives(codec.decode_request if is_request else codec.decode_response, api, data)


def damaged_readers() -> dict[str, tuple[Shape, Callable[[bytearray], object]]]:
    """Return readers whose bodies are damaged deep inside, and the shape of these bodies."""
    found: dict[str, tuple[Shape, Callable[[bytearray], object]]] = {}
    for api in apis_known():
        asked = codec.request_shape(api)
        if (rewrite := addresses.rewriter(api)) is not None:
            found[f"addresses of {name(api)}"] = (
                codec.response_shape(api),
                lambda b, r=rewrite: r(b, 0, len(b), told),
            )
        if names_anything(api.key):
            found[f"names in {name(api)}"] = (
                asked,
                lambda b, a=api: read_names(a, b, 0, len(b), {}),
            )
        if api.key in {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}:
            found[f"kinds in {name(api)}"] = (asked, partial(altered_kinds, api))
        if api.key == ApiKey.ALTER_CLIENT_QUOTAS:
            found[f"read {name(api)}"] = (asked, partial(client_quotas.read_alter, api))
    return found


DAMAGED = damaged_readers()


@for_each(DAMAGED, examples=10)
def test_a_damaged_body_is_read_or_refused(reader, data):
    """A real body, overwritten deep inside or cut, raises no exception but WireError."""
    shape, read = DAMAGED[reader]
    body = bytearray(codec.encode(data.draw(messages_of(shape))))
    if not body:
        return
    places = st.tuples(
        st.integers(0, len(body) - 1), st.sampled_from([0, 1, 0xFF]) | st.integers(0, 255)
    )
    for at, byte in data.draw(st.lists(places, max_size=4)):
        body[at] = byte
    survives(read, body)
    survives(read, body[: data.draw(st.integers(0, len(body)))])


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (1, "000000"),
        (1, "02000100000000"),
        (1, "02010000000000"),
        (0, "ffffffff00"),
        (0, "00000001ffffffff0000000000"),
        (0, "0000000100000000ffffffff00"),
    ],
)
def test_a_null_list_where_none_may_be_is_refused(version, body):
    """No list of AlterClientQuotas is nullable (AlterClientQuotasRequest.json):
    entries, an entry's entity, an entry's ops.
    """
    with pytest.raises(WireError, match=r"array \w+ is null"):
        client_quotas.read_alter(api_of(ApiKey.ALTER_CLIENT_QUOTAS, version), bytes.fromhex(body))
