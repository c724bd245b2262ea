"""The kinds of resources whose configs a request changes, against the codec's schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.kafka_messages import api_of, messages_of
from wire import codec
from wire.apis import OFFERED, Api, ApiKey
from wire.config_resources import altered_kinds
from wire.errors import BudgetError, WireError
from wire.primitives import ELEMENT_BUDGET

APIS = [
    api_of(key, version)
    for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    for version in range(OFFERED[key][0], OFFERED[key][1] + 1)
]
of_each_version = pytest.mark.parametrize("api", APIS, ids=lambda api: f"{api.name}-v{api.version}")


@of_each_version
@given(data=st.data())
def test_the_kinds_are_those_of_the_codec(api: Api, data: st.DataObject) -> None:
    """A kind is a byte: what Kafka reads as negative is above 127."""
    message = data.draw(messages_of(codec.request_shape(api)))
    kinds = {each.resource_type & 0xFF for each in message.resources}  # type: ignore[attr-defined] # generated
    assert altered_kinds(api, codec.encode(message)) == kinds


@of_each_version
@given(data=st.data())
def test_a_body_that_ends_too_early_is_malformed(api: Api, data: st.DataObject) -> None:
    """Whichever byte is its last."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    for end in range(len(body) - 1 - api.flexible):
        with pytest.raises(WireError):
            altered_kinds(api, body[:end])


def test_null_too_many_elements_and_other_apis_are_refused() -> None:
    """A null array is what Kafka refuses, too; a walk ends with its budget."""
    api = api_of(ApiKey.ALTER_CONFIGS, 0)
    with pytest.raises(WireError, match="array resources is null"):
        altered_kinds(api, b"\xff\xff\xff\xff\x00")
    count = ELEMENT_BUDGET + 1
    with pytest.raises(BudgetError):
        altered_kinds(api, count.to_bytes(4, "big") + bytes(7 * count + 1))
    with pytest.raises(WireError, match="DescribeConfigs changes no configs"):
        altered_kinds(api_of(ApiKey.DESCRIBE_CONFIGS, 4), b"")
