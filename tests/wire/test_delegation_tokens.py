"""The owners of delegation tokens in replies, against the codec's schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec
from wire.apis import OFFERED, Api
from wire.delegation_tokens import APIS, MAX_TOKENS, owners_in
from wire.errors import WireError
from wire.schema import make_message

VERSIONS = [
    api_of(key, version)
    for key in sorted(APIS)
    for version in range(OFFERED[key][0], OFFERED[key][1] + 1)
    if codec.is_known(api_of(key, version))
]
of_each_version = pytest.mark.parametrize(
    "api", VERSIONS, ids=lambda api: f"{api.name}-v{api.version}"
)


def read(api: Api, body: bytes) -> list[tuple[str, str]]:
    return list(owners_in(api, body, 0, len(body)))


@of_each_version
@given(data=st.data())
def test_each_token_of_a_user_is_named_with_its_owner(api: Api, data: st.DataObject) -> None:
    """The requester of a token and its renewers are not its owner; an error names none."""
    message = data.draw(messages_of(codec.response_shape(api)))
    tokens = getattr(message, "tokens", (message,))
    expected = [
        (each.token_id, each.principal_name) for each in tokens if each.principal_type == "User"
    ]
    found = read(api, codec.encode(message))
    assert found == ([] if message.error_code else expected)  # type: ignore[attr-defined] # generated


@of_each_version
def test_a_users_token_is_read(api: Api) -> None:
    """Without chance: the type is User, the names are long, and a token in a list has two renewers."""
    shape = codec.response_shape(api)
    token: dict[str, object] = {
        "principal_type": "User",
        "principal_name": "a" * 200,
        "token_id": "t" * 130,
    }
    if (field := shape.field("tokens")) is not None:
        assert field.shape is not None
        renewers = field.shape.field("renewers")
        assert renewers is not None
        assert renewers.shape is not None
        token["renewers"] = (make_message(renewers.shape, 0, {"principal_name": "b"}),) * 2
        token = {"tokens": (make_message(field.shape, 0, token),) * 2}
    body = codec.encode(make_message(shape, 0, token))
    found = read(api, body)
    assert found == [("t" * 130, "a" * 200)] * len(found)
    assert len(found) == (1 if field is None else 2)

    with pytest.raises(WireError, match="not valid UTF-8"):
        read(api, body.replace(b"a" * 200, b"\xff" * 200))


def test_a_reply_with_very_many_tokens_is_read_in_part() -> None:
    """The work of one reply is bounded."""
    api = api_of(41, 3)
    shape = codec.response_shape(api)
    field = shape.field("tokens")
    assert field is not None
    assert field.shape is not None
    token = make_message(field.shape, 0, {"principal_type": "User", "token_id": "t"})
    body = codec.encode(make_message(shape, 0, {"tokens": (token,) * (MAX_TOKENS + 1)}))
    assert len(read(api, body)) == MAX_TOKENS


def test_other_apis_name_no_token() -> None:
    """To read one is a mistake of the caller."""
    with pytest.raises(WireError, match="RenewDelegationToken names no delegation token"):
        read(api_of(39, 2), b"\0\0")
