"""The code made from layouts agrees with `wire.primitives`, is bounded, and never reads beyond the end."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire import codec, cuts_code, names_code, primitives, varint
from wire.apis import Api, ApiKey
from wire.errors import BudgetError, WireError
from wire.layout_code import LayoutCode
from wire.listing_cuts import LISTED, TOOLS, cut, layout_of_reply
from wire.listing_view import View
from wire.primitives import compact_length, skip_compact
from wire.request_layouts import layout_of
from wire.request_names import RequestNames, read_names
from wire.schema import make_message


def made(write) -> object:
    """Return a function whose code `write` has written."""
    code = LayoutCode("def step(buf, pos, end):", flexible=True)
    write(code)
    code.add("return pos")
    scope = {}
    exec("\n".join(code.lines), {**vars(primitives), **vars(varint)}, scope)  # noqa: S102 - our own code
    return scope["step"]


@given(st.integers(0, 40_000), st.integers(0, 3))
def test_a_compact_field_of_any_size_is_stepped_over(size, padding):
    """A size may have more bytes than it needs, and null has no bytes to step over."""
    step = made(LayoutCode.skip_text)
    encoded = bytearray(varint.encode_uvarint(size))
    for _ in range(padding if len(encoded) + padding <= 5 else 0):
        encoded[-1] |= 0x80
        encoded.append(0)
    buf = bytes(encoded) + bytes(size + 8)
    assert step(buf, 0, len(buf)) == skip_compact(buf, 0, len(buf))


@given(st.text(max_size=200))
def test_a_text_is_read_as_by_the_primitives(text):
    """With a size of one byte or two."""
    step = made(lambda code: (code.read_text("name"), code.add("pos = pos, name")))
    raw = text.encode()
    buf = varint.encode_uvarint(len(raw) + 1) + raw + b"rest"
    length, at = compact_length(buf, 0, len(buf))
    assert step(bytearray(buf), 0, len(buf)) == (at + length, text)


@pytest.mark.parametrize("flexible", [False, True])
def test_a_block_ends_with_its_context(flexible):
    """The line after it has the indentation of the line that opened it; classic structs have no tags."""
    code = LayoutCode("def step():", flexible=flexible)
    with code.block("if pos:"):
        code.tags("more()")
    code.add("return")
    inner = ["        if buf[pos]: more()", "        else: pos += 1"] if flexible else []
    assert code.lines == ["def step():", "    if pos:", *inner, "    return"]


def read(api: Api, body: bytes, budget: int = 20_000) -> RequestNames:
    """Read the names in this body."""
    return read_names(api, bytearray(body), 0, len(body), {}, budget)


@pytest.mark.parametrize(
    ("version", "size"), [(8, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x0f")]
)
def test_an_announced_array_of_names_costs_nothing_before_its_elements(version, size):
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


def test_elements_cost_budget_and_neighbours_of_fixed_width_are_one_step():
    """A partition of a Fetch is one step of 28 bytes and its tags, and not seven fields."""
    api = api_of(ApiKey.METADATA, 12)
    assert len(read(api, metadata_of(50), budget=50).topics) == 50
    with pytest.raises(BudgetError):
        read(api, metadata_of(51), budget=50)

    api = api_of(ApiKey.FETCH, 12)
    layout = layout_of(api)
    assert layout is not None
    code = names_code.source(api, layout)
    assert "_partitions(buf, pos, end, budget - count2, count2, 32, 1, spend_tags)" in code


LISTINGS = [api for api in apis_known() if api.key in LISTED]
VIEW = View(lambda *_: True)


@for_each(product(LISTINGS, [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff" * 40]))
def test_an_announced_array_costs_nothing_before_its_elements(api: Api, count: bytes) -> None:
    """A count of two thousand million is refused at once, wherever it stands."""
    for at in range(30):
        with pytest.raises(WireError):
            cut(api, bytes(at) + count + b"\x7f" * 40, VIEW)


def test_elements_of_one_width_are_stepped_over_together() -> None:
    """A loop over them would read nothing, and so would not end where the body ends."""
    log_dirs = api_of(ApiKey.DESCRIBE_LOG_DIRS, 1)
    topic = b"\0\1/" + b"\0\0\0\1" + b"\0\1a" + b"\x7f\xff\xff\xff"
    with pytest.raises(WireError):
        cut(log_dirs, bytes(4) + b"\0\0\0\1" + b"\0\0" + topic, VIEW)


@for_each(LISTINGS)
def test_the_code_uses_its_tools_only(api: Api) -> None:
    """It is made from the layout, and nothing of a reply is in it."""
    layout = layout_of_reply(api)
    assert layout is not None
    code = compile(cuts_code.source(api, layout), "<code>", "exec").co_consts[0]
    assert set(code.co_names) <= TOOLS.keys() | {
        "allows", "mask", "cluster_mask", "asks_by_id", "shows", "shows_id", "shows_nameless",
        "after", "append", "decode", "len", "range",
    }  # fmt: skip
