"""The schemas of the admin API: input is strict, and every schema has a description."""

import msgspec
import pytest

from proxy.admin import schemas

STRUCTS = [
    each
    for each in vars(schemas).values()
    if isinstance(each, type) and issubclass(each, msgspec.Struct)
]


@pytest.mark.parametrize("shape", STRUCTS, ids=lambda each: each.__name__)
def test_every_schema_has_a_description(shape):
    """The OpenAPI document is made of them."""
    _, components = msgspec.json.schema_components([shape])
    assert components[shape.__name__].get("description") or shape.__module__ != schemas.__name__


@pytest.mark.parametrize("shape", [schemas.QuotaLimits, schemas.LogLevel])
def test_input_with_an_unknown_field_is_refused(shape):
    """A misspelt field must not be ignored."""
    with pytest.raises(msgspec.ValidationError, match="unknown"):
        msgspec.json.decode(b'{"level": "info", "wrong": 1}', type=shape)
