"""What is taken is strict; what is said can be described."""

from __future__ import annotations

import msgspec
import pytest

from proxy.admin import schemas

STRUCTS = [
    each
    for each in vars(schemas).values()
    if isinstance(each, type) and issubclass(each, msgspec.Struct)
]


@pytest.mark.parametrize("shape", STRUCTS, ids=lambda each: each.__name__)
def test_every_shape_has_a_schema_and_a_word(shape):
    """The OpenAPI document is made of them."""
    _, components = msgspec.json.schema_components([shape])
    assert components[shape.__name__].get("description") or shape.__module__ != schemas.__name__


@pytest.mark.parametrize("shape", [schemas.QuotaLimits, schemas.LogLevel])
def test_what_is_taken_has_no_unknown_field(shape):
    """A slip must not pass as nothing."""
    with pytest.raises(msgspec.ValidationError, match="unknown"):
        msgspec.json.decode(b'{"level": "info", "wrong": 1}', type=shape)
