"""The code that reads names is bounded: counts are checked before elements, and elements cost budget."""

import pytest

from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import Api, ApiKey
from wire.errors import BudgetError, WireError
from wire.names_code import source
from wire.request_layouts import layout_of
from wire.request_names import RequestNames, read_names
from wire.schema import make_message


def read(api: Api, body: bytes, budget: int = 20_000) -> RequestNames:
    """Read the names in this body."""
    return read_names(api, bytearray(body), 0, len(body), {}, budget)


@pytest.mark.parametrize(
    ("version", "size"), [(8, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x0f")]
)
def test_an_announced_array_costs_nothing_before_its_elements(version, size):
    """A count of two thousand million is refused at once."""
    with pytest.raises(WireError):
        read(api_of(ApiKey.METADATA, version), size + bytes(40))


def metadata_of(count: int) -> bytes:
    """A Metadata v12 body that names `count` topics."""
    api = api_of(ApiKey.METADATA, 12)
    shape = codec.request_shape(api)
    field = shape.field("topics")
    assert field is not None
    assert field.shape is not None
    names = (make_message(field.shape, 0, {"name": f"t{number}"}) for number in range(count))
    return codec.encode(make_message(shape, 0, {"topics": tuple(names)}))


def test_elements_cost_budget():
    """One topic more than the budget is refused."""
    api = api_of(ApiKey.METADATA, 12)
    assert len(read(api, metadata_of(50), budget=50).topics) == 50
    with pytest.raises(BudgetError):
        read(api, metadata_of(51), budget=50)


def test_neighbours_of_fixed_width_are_one_step():
    """A partition of a Fetch is one step of 28 bytes and its tags, and not seven fields."""
    api = api_of(ApiKey.FETCH, 12)
    layout = layout_of(api)
    assert layout is not None
    assert "_partitions(buf, pos, end, budget - count2, count2, 32, 1)" in source(api, layout)
