"""The OpenAPI document of the routes in `routes` and `health`; its schemas are made from the types.

Every refusal is an Error, whatever its status. A test compares the document with the routes and their answers.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.admin import schemas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REF = "#/components/schemas/{name}"
JSON = "application/json"
NOTHING = {
    "required": False,
    "content": {JSON: {"schema": {"type": "object", "additionalProperties": False}}},
}
_SCHEMAS = (
    schemas.State, schemas.Event, schemas.ConnectionList, schemas.PoolList,
    schemas.DecisionList, schemas.QuotaList, schemas.QuotaLimits,
    schemas.LogLevel, schemas.RunningConfig, schemas.PolicyState,
    schemas.Reloaded, schemas.Draining, schemas.Version, schemas.Health, schemas.Error,
)  # fmt: skip
_STRING = {"type": "string"}
_TEXT = {"schema": _STRING}


@cache
def encoded() -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """Return the document, as OpenAPI 3.1."""
    _, components = msgspec.json.schema_components(_SCHEMAS, ref_template=REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice's admin server",
            "version": version("kafka-sluice"),
            "description": "Probes and metrics need no token. Everything else needs the socket or the token.",
        },
        "paths": _paths(),
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _paths() -> dict[str, dict[str, Any]]:
    page = {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}
    ready = "Whether the proxy accepts new clients."
    event = "The state once per second, as server-sent events `state` with an Event each."
    listed = "Connections: muted ones first, then those with most requests in flight."
    drain = "Drain: answer the requests in flight, disconnect every client, stop."
    reload = "Read the configuration again. 422: it is invalid, and nothing was changed."
    level = "Set the log level until the next start."
    shown = "What a policy shows to operators, by the name of its entry."
    changed = "Change a policy until Sluice stops, as the policy's page says."
    put = "Set live quotas of one entity: a user, a client id, or both together."
    delete = "Remove live quotas of one entity; those of the files are in force again."
    number = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    session = _parameter("id", "path", number)
    entry = [_parameter("name", "path", {**_STRING, "minLength": 1})]
    change = {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}
    name = {**_STRING, "minLength": 1, "maxLength": schemas.MAX_NAME_CHARS}
    words = "`<default>` stands for all names without a quota of their own."
    whose = [_parameter(kind, "query", name, words) for kind in ("user", "client_id")]
    must = "The revision that the quotas must have; else 412 and no change."
    if_match = _parameter("If-Match", "header", _STRING, must)
    keys = {"enum": list(schemas.QuotaLimits.__struct_fields__)}
    which = _parameter("quota", "query", keys, "Remove only this quota.")
    return {
        "/startup": {"get": _open("Whether the proxy has started.", "Health")},
        "/live": {"get": _open("Whether the event loop answers.", "Health")},
        "/ready": {"get": _open(ready, "Health", 200, 503)},
        "/version": {"get": _open("The version of Sluice and of Python.", "Version")},
        "/metrics": {"get": _open("The metrics for Prometheus.", page)},
        "/v1/state": {
            "get": _operation("The whole state, with fifteen minutes of history.", "State")
        },
        "/v1/events": {"get": _operation(event, {"text/event-stream": _TEXT})},
        "/v1/connections": {
            "get": _operation(listed, "ConnectionList", parameters=[_limit(1000, 200)])
        },
        "/v1/connections/{id}": {
            "delete": _operation(
                "Close one client's connection.", {}, 204, parameters=[session], body=NOTHING
            )
        },
        "/v1/pool": {"get": _operation("The memory pools.", "PoolList")},
        "/v1/decisions": {
            "get": _operation(
                "Recent decisions, the newest first.", "DecisionList", parameters=[_limit(500, 100)]
            )
        },
        "/v1/quotas": {
            "get": _operation("Every quota in force.", "QuotaList"),
            "put": _operation(
                put, "QuotaList", parameters=[*whose, if_match], body=_body("QuotaLimits")
            ),
            "delete": _operation(
                delete, "QuotaList", parameters=[*whose, which, if_match], body=NOTHING
            ),
        },
        "/v1/policies/{name}": {
            "get": _operation(shown, "PolicyState", parameters=entry),
            "put": _operation(changed, "PolicyState", parameters=entry, body=change),
        },
        "/v1/drain": {"post": _operation(drain, "Draining", 202, body=NOTHING)},
        "/v1/reload": {"post": _operation(reload, "Reloaded", 200, 422, body=NOTHING)},
        "/v1/config": {"get": _operation("The settings in force.", "RunningConfig")},
        "/v1/log-level": {
            "get": _operation("The lowest level that is logged.", "LogLevel"),
            "put": _operation(level, "LogLevel", body=_body("LogLevel")),
        },
        "/openapi.json": {
            "get": _operation("This document.", {JSON: {"schema": {"type": "object"}}})
        },
    }


def _operation(
    summary: str,
    answer: str | Mapping[str, Any],
    *codes: int,
    parameters: Sequence[Mapping[str, Any]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return an operation with its answer, a schema or a content, which has one of `codes` (200), and its refusals."""
    content = _content(answer) if isinstance(answer, str) else answer
    answered = {"description": summary} | ({"content": content} if content else {})
    refused = {"description": "why it is refused", "content": _content("Error")}
    responses = {str(code): answered for code in codes or (200,)} | {"default": refused}
    made: dict[str, Any] = {"summary": summary, "responses": responses}
    if parameters:
        made["parameters"] = parameters
    return made if body is None else made | {"requestBody": body}


def _open(summary: str, answer: str | Mapping[str, Any], *codes: int) -> dict[str, Any]:
    return _operation(summary, answer, *codes) | {"security": []}


def _content(shape: str) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": REF.format(name=shape)}}}


def _body(shape: str) -> dict[str, Any]:
    return {"required": True, "content": _content(shape)}


def _parameter(name: str, place: str, schema: Mapping[str, Any], words: str = "") -> dict[str, Any]:
    made = {"name": name, "in": place, "required": place == "path", "schema": schema}
    return made | ({"description": words} if words else {})


def _limit(highest: int, default: int) -> dict[str, Any]:
    bounds = {"type": "integer", "minimum": 1, "maximum": highest, "default": default}
    return _parameter("limit", "query", bounds)
