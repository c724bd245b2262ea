"""The schemas of the admin API: every schema has a description."""

import msgspec

from proxy.admin import schemas


def test_every_schema_has_a_description():
    """The OpenAPI document is made of them."""
    shapes = [
        each
        for each in vars(schemas).values()
        if isinstance(each, type)
        and issubclass(each, msgspec.Struct)
        and each.__module__ == schemas.__name__
    ]
    _, components = msgspec.json.schema_components(shapes)
    assert len(shapes) > 10
    assert [
        each.__name__ for each in shapes if not components[each.__name__].get("description")
    ] == []
