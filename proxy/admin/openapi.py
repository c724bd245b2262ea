"""The OpenAPI document: what `control` and `health` do, written down; the schemas come from their types.

A route that is not here, or answers otherwise than it says here, is a mistake that a test finds.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.admin import schemas
from proxy.admin.middleware import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

REF = "#/components/schemas/{name}"
JSON = "application/json"
_SCHEMAS = (
    schemas.State, schemas.Event, schemas.ConnectionList, schemas.PurgatoryState, schemas.PoolList,
    schemas.DecisionList, schemas.QuotaList, schemas.QuotaUsage, schemas.QuotaLimits, schemas.LogLevel,
    schemas.Reloaded, schemas.Draining, schemas.TaskList, schemas.Version, schemas.Health, schemas.Error,
)  # fmt: skip
_WHY = {
    400: "the request is malformed",
    401: "a token is required",
    403: "an unknown host, or a cross-site request",
    404: "not found",
    405: "method not allowed",
    408: "the body did not come in time",
    409: "not possible now",
    412: "the quotas changed since the revision in If-Match",
    413: f"a body of more than {MAX_BODY_BYTES} bytes",
    415: "the content type is not JSON",
    429: "too many changes",
    500: "failed; nothing was changed",
    503: "too many clients, or too slow",
}
_ALWAYS = (400, 401, 403, 405, 408, 413, 503)
_OPEN = (403, 405, 408, 413, 503)
_CHANGES = (*_ALWAYS, 415, 429)
_TEXT = {"schema": {"type": "string"}}


@cache
def encoded() -> bytes:
    """The document, as JSON."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """The document. Keys and schemas are OpenAPI's, version 3.1."""
    _, components = msgspec.json.schema_components(_SCHEMAS, ref_template=REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice's admin server",
            "version": version("kafka-sluice"),
            "description": "Probes and metrics need no token. Everything else needs the socket or the token.",
        },
        "paths": {
            "/startup": {"get": _open("It has started.", "Health")},
            "/live": {"get": _open("It is alive.", "Health")},
            "/ready": {"get": _open("Whether new clients should come here.", "Health", 503)},
            "/version": {"get": _open("Who this is.", "Version")},
            "/metrics": {"get": _metrics()},
            "/v1/state": {
                "get": _get("Everything, with a quarter of an hour of history.", "State")
            },
            "/v1/events": {
                "get": _operation(
                    "The state once a second, as server-sent events `state` of an Event each; without end.",
                    {200: {"text/event-stream": _TEXT}},
                    _ALWAYS,
                )
            },
            "/v1/connections": {
                "get": _get(
                    "Who is connected: who is muted first, then who has most in flight.",
                    "ConnectionList",
                    [_limit(1000, 200)],
                )
            },
            "/v1/connections/{id}": {"delete": _close()},
            "/v1/purgatory": {"get": _get("What waits, here or at a broker.", "PurgatoryState")},
            "/v1/pool": {"get": _get("The memory pools.", "PoolList")},
            "/v1/decisions": {
                "get": _get(
                    "What was decided lately, the newest first.", "DecisionList", [_limit(500, 100)]
                )
            },
            "/v1/quotas": _quotas(),
            "/v1/quotas/usage": {
                "get": _operation(
                    "How much of each quota is used, the busiest first.",
                    {200: _json("QuotaUsage")},
                    (*_ALWAYS, 404),
                )
            },
            "/v1/drain": {
                "post": _operation(
                    "Go down: answer what is in flight, let every client go.",
                    {202: _json("Draining")},
                    _CHANGES,
                    body=_NOTHING,
                )
            },
            "/v1/reload": {
                "post": _operation(
                    "Read the configuration again. 422: it cannot be used, and nothing was changed.",
                    {200: _json("Reloaded"), 422: _json("Reloaded")},
                    (*_CHANGES, 409),
                    body=_NOTHING,
                )
            },
            "/v1/log-level": {
                "get": _get("The least that is worth a log line.", "LogLevel"),
                "put": _operation(
                    "Set it.", {200: _json("LogLevel")}, _CHANGES, body=_body("LogLevel")
                ),
            },
            "/v1/debug/tasks": {"get": _get("Where the tasks of the event loop wait.", "TaskList")},
            "/openapi.json": {
                "get": _operation(
                    "This document.", {200: {JSON: {"schema": {"type": "object"}}}}, _ALWAYS
                )
            },
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


_NOTHING = {
    "required": False,
    "content": {JSON: {"schema": {"type": "object", "additionalProperties": False}}},
}


def _operation(
    summary: str,
    answers: Mapping[int, Mapping[str, Any]],
    why_not: tuple[int, ...],
    parameters: list[dict[str, Any]] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    responses = {
        str(code): {"description": _WHY[code], "content": _json("Error")} for code in why_not
    }
    for code, content in answers.items():
        responses[str(code)] = {"description": summary, "content": dict(content)}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = body
    return operation


def _get(
    summary: str, shape: str, parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return _operation(summary, {200: _json(shape)}, _ALWAYS, parameters)


def _open(summary: str, shape: str, *more: int) -> dict[str, Any]:
    answers = {code: _json(shape) for code in (200, *more)}
    operation = _operation(summary, answers, tuple(code for code in _OPEN if code not in more))
    operation["security"] = []
    return operation


def _metrics() -> dict[str, Any]:
    kinds = {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}
    operation = _operation("What Prometheus reads.", {200: kinds}, _OPEN)
    operation["security"] = []
    return operation


def _close() -> dict[str, Any]:
    place = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    }
    operation = _operation("End one client's connection.", {}, (*_CHANGES, 404), [place], _NOTHING)
    operation["responses"]["204"] = {"description": "It ends."}
    return operation


def _quotas() -> dict[str, Any]:
    words = "`<default>` stands for all names without a quota of their own."
    whose = [
        {
            "name": name,
            "in": "query",
            "description": words,
            "schema": {"type": "string", "minLength": 1, "maxLength": schemas.MAX_NAME_CHARS},
        }
        for name in ("user", "client_id")
    ]
    if_match = {
        "name": "If-Match",
        "in": "header",
        "description": "The revision that the quotas must have; else 412 and no change.",
        "schema": {"type": "string"},
    }
    which = {
        "name": "quota",
        "in": "query",
        "description": "Only this one.",
        "schema": {"enum": list(schemas.QuotaLimits.__struct_fields__)},
    }
    why_not = (*_CHANGES, 404, 409, 412, 500)
    changed = {200: _json("QuotaList")}
    listed = _operation("Every limit that holds.", changed, (*_ALWAYS, 404))
    put = "Set live limits of one entity, at once: of a user, a client id, or of both together."
    delete = "Take live limits of one entity back: what the file says holds again."
    return {
        "get": listed,
        "put": _operation(put, changed, why_not, [*whose, if_match], _body("QuotaLimits")),
        "delete": _operation(delete, changed, why_not, [*whose, which, if_match], _NOTHING),
    }


def _limit(highest: int, default: int) -> dict[str, Any]:
    return {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": highest, "default": default},
    }


def _json(shape: str) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": REF.format(name=shape)}}}


def _body(shape: str) -> dict[str, Any]:
    return {"required": True, "content": _json(shape)}
