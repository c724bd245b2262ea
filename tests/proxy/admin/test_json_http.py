"""Reading a request's parameters and body, and writing an answer."""

import pytest
from starlette.requests import Request

from proxy.admin.errors import AdminError
from proxy.admin.json_http import answer, error, query_parameters, whole_number
from proxy.admin.schemas import Draining


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
