"""The OpenAPI document matches the routes; an integration test (schemathesis) compares it with the answers."""

import json

import msgspec
import pytest

from proxy.admin import openapi, schemas
from proxy.admin.health import Probes
from proxy.admin.live_state import LiveState
from proxy.admin.routes import Routes
from proxy.admin.sse import EventStreams
from tests.support.processes.admin_room import roomy


@pytest.fixture(scope="module")
def document():
    return json.loads(openapi.encoded())


def test_the_document_has_every_route_and_no_other(document):
    """It lists the methods of each; HEAD is implied by GET."""
    with roomy() as room:
        live = LiveState(room.service, room.loop_lag)
        routes = [
            *Probes(room.service).routes(),
            *Routes(room.service, live, EventStreams(live)).routes(),
        ]
    there: dict[str, set[str]] = {}
    for route in routes:
        there.setdefault(route.path, set()).update((route.methods or set()) - {"HEAD"})
    said = {path: {method.upper() for method in each} for path, each in document["paths"].items()}
    assert said == there


def test_every_reference_in_the_document_resolves(document):
    """Each schema that is referred to is in the document."""
    text = json.dumps(document)
    names = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= document["components"]["schemas"].keys()


def test_every_operation_says_how_it_refuses(document):
    """All refusals have one schema."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            schema = operation["responses"]["default"]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Error"}, (method, path)


def test_only_open_paths_need_no_token(document):
    """Every other path is protected by the token or by the socket's mode."""
    opened = {
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if operation.get("security") == []
    }
    assert opened == {"/startup", "/live", "/ready", "/version", "/metrics"}


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
