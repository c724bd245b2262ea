"""The layouts of requests that name topics and groups are those of Kafka's message definitions."""

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import apis_known, name
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey
from wire.request_layouts import (
    FETCH_TAG_BYTES,
    FETCH_TAGS_SINCE,
    Part,
    layout_of,
    names_anything,
)
from wire.schema import FIXED_BYTES, Shape

NAMELESS = {
    ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE, ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.UPDATE_FEATURES, ApiKey.DESCRIBE_CLUSTER, ApiKey.UNREGISTER_BROKER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY, ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UNREGISTER_CONTROLLER,
}  # fmt: skip
"""APIs whose requests name no topic, no group and no transactional id."""
READ = [api for api in apis_known() if names_anything(api.key) and layout_of(api) is not None]
_WIDTHS = {
    "p": 4,
    "i": 16,
    "e": 4,
    "t": "s",
    "g": "s",
    "n": "s",
    "x": "s",
    "w": "s",
    "d": "s",
    "u": "s",
    "o": 4,
    "y": 1,
}


def told_by_codec(shape: Shape) -> list[object]:
    """The fields of a request in order, as widths, `s`, `b`, and lists for arrays and structs."""
    found: list[object] = []
    for field in shape.untagged:
        one: object
        if field.shape is not None:
            kind = "{" if field.is_array else "(" if field.is_nullable else "<"
            one = [kind, *told_by_codec(field.shape)]
        else:
            one = FIXED_BYTES.get(field.kafka_type) or field.kafka_type[0].replace("r", "b")
            one = ["[", one] if field.is_array else one
        found.append(one)
    return found


def told_by_layout(parts: tuple[Part, ...], api: Api) -> list[object]:
    """The same of a layout."""
    found: list[object] = []
    for part in parts:
        kind = part.kind
        if kind in "{[<(":
            found.append([kind, *told_by_layout(part.parts, api)])
        elif kind in "ra":
            found += [1, "s", *([1] if kind == "a" and api.version >= 1 else [])]
        elif kind == "k":
            found += ["s", 1]
        elif kind == "q":
            found += [1, ["[", "s"]]
        else:
            found.append(int(kind) if kind.isdigit() else _WIDTHS.get(kind, kind))
    return found


@for_each(READ)
def test_the_layout_is_the_codecs(api: Api) -> None:
    """Field by field: no version reads a byte of one field as another's."""
    shape = codec.request_shape(api)
    layout = layout_of(api)
    assert layout is not None
    assert told_by_layout(layout, api) == told_by_codec(shape)


def test_every_offered_api_is_in_the_table_or_names_nothing() -> None:
    """A new API is put into the table, or said to name no topic and no group."""
    offered = {api.key for api in BY_KEY_AND_VERSION.values()}
    assert {key for key in offered if not names_anything(key)} == NAMELESS


def test_every_offered_version_has_a_layout() -> None:
    """Policies know all that any request names."""
    named = [api for api in BY_KEY_AND_VERSION.values() if names_anything(api.key)]
    assert [name(api) for api in named if layout_of(api) is None] == []


@for_each(READ)
def test_no_known_tagged_field_comes_before_a_topic(api: Api) -> None:
    """A broker reads a known tagged field by its own length, not by the size that is stepped over here. The sizes of
    those of a fetched partition are checked.
    """

    def nested(shape: Shape) -> list[Shape]:
        inner = [f.shape for f in (*shape.untagged, *shape.tagged.values()) if f.shape is not None]
        return inner + [each for one in inner for each in nested(one)]

    tagged = [shape.tagged for shape in nested(codec.request_shape(api)) if shape.tagged]
    if api.key == ApiKey.FETCH and api.version >= FETCH_TAGS_SINCE:
        (known,) = tagged
        sizes = {tag: FIXED_BYTES[field.kafka_type] for tag, field in known.items()}
        assert sizes.items() <= FETCH_TAG_BYTES.items()
    else:
        assert tagged == []
