"""Reading a request's parameters and body, and writing an answer."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from proxy.admin.errors import AdminError
from proxy.admin.json_http import answer, error, is_deeper, query_parameters, read, whole_number
from proxy.admin.schemas import Draining


class Deep(msgspec.Struct):
    """A body with a value of any kind."""

    changes: object


def request(query: bytes) -> Request:
    return Request({"type": "http", "query_string": query, "headers": []})


def test_an_answer_is_the_json_of_its_schema():
    """An error is JSON too."""
    assert answer(Draining(draining=True), 202).body == b'{"draining":true}'
    assert (error(404, "none").status_code, error(404, "none").body) == (404, b'{"error":"none"}')


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("10", 10), ("007", 7)])
def test_a_whole_number_within_its_bounds_is_read(text, number):
    """Both bounds are allowed values."""
    assert whole_number(text, "n", 1, 10) == number


@pytest.mark.parametrize("text", ["0", "11", "", " 1", "+1", "1_0", "0x1", "1e0", "²", "\u0661"])
def test_any_other_value_of_a_number_is_refused(text):
    """The error names the bounds."""
    with pytest.raises(AdminError, match=r"n: found .*, expected a whole number in 1\.\.10"):
        whole_number(text, "n", 1, 10)


def test_a_parameter_must_be_known_and_given_once():
    """A parameter without a value counts as given."""
    assert query_parameters(request(b"a=1&b="), {"a", "b", "c"}) == {"a": "1", "b": ""}
    with pytest.raises(AdminError, match="known are: a, b"):
        query_parameters(request(b"c=1"), {"a", "b"})
    with pytest.raises(AdminError, match="a is given twice"):
        query_parameters(request(b"a=1&a=1"), {"a"})


class Body:
    """A request with this body."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def body(self) -> bytes:
        return self._body


def nested(levels: int) -> bytes:
    return b'{"changes":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


@pytest.mark.parametrize(
    "body",
    [b"[" * 60_000, nested(101), nested(900), b'{"a":' * 10_000, b"[" * 30_000 + b"]" * 30_000],
)
async def test_a_body_that_is_too_deep_is_an_error_of_the_caller(body):
    """It never ends as a fault of Sluice, however deep it is."""
    with pytest.raises(AdminError, match="the body: more than 100 levels") as caught:
        await read(Body(body), Deep)
    assert caught.value.status == 400


async def test_a_hundred_levels_and_brackets_in_a_text_are_read():
    """Only brackets outside of texts are levels."""
    for body in (nested(100), b'{"changes":["' + b"[" * 500 + b'\\"{{"]}'):
        assert (await read(Body(body), Deep)).changes


@given(
    st.recursive(
        st.none() | st.text('[]{}"\\a'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('[{"\\'), inner),
    )
)
def test_levels_are_counted_as_a_reader_counts_them(value):
    """For any JSON, also with brackets and quotes in its texts."""

    def depth(each) -> int:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        return isinstance(each, dict | list) + max(map(depth, inner), default=0)

    text = json.dumps(value).encode()
    levels = depth(value)
    assert not is_deeper(text, levels)
    assert levels == 0 or is_deeper(text, levels - 1)
