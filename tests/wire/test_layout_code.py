"""The code that steps over fields agrees with the readers of `wire.primitives` for each size of a field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import primitives, varint
from wire.layout_code import LayoutCode
from wire.primitives import compact_length, skip_compact


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
