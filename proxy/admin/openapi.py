"""The OpenAPI document of the routes in `routes` and `health`; its schemas are made from the types.

A test compares it with the routes and their answers.
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
WHY = {
    400: "the request is malformed",
    401: "a token is required",
    403: "an unknown host, or a cross-site request",
    404: "not found",
    405: "method not allowed",
    408: "the body did not arrive in time",
    409: "not possible now",
    412: "the quotas changed since the revision in If-Match",
    413: f"a body of more than {MAX_BODY_BYTES} bytes",
    415: "the content type is not JSON",
    429: "too many changes",
    500: "failed; nothing was changed",
    503: "too many clients, or too slow",
}
ALWAYS = (400, 401, 403, 405, 408, 413, 503)
OPEN = (403, 405, 408, 413, 503)
CHANGES = (*ALWAYS, 415, 429)
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
_TEXT = {"schema": {"type": "string"}}
_PAGE = {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}


def operation(
    summary: str,
    answers: Mapping[int, Mapping[str, Any]],
    why_not: tuple[int, ...],
    parameters: list[dict[str, Any]] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return an operation with its answers by status, and the errors that it may give."""
    responses = {
        str(code): {"description": WHY[code], "content": json_content("Error")} for code in why_not
    }
    for code, content in answers.items():
        responses[str(code)] = {"description": summary, "content": dict(content)}
    made: dict[str, Any] = {"summary": summary, "responses": responses}
    if parameters:
        made["parameters"] = parameters
    if body is not None:
        made["requestBody"] = body
    return made


def json_content(shape: str) -> dict[str, Any]:
    """Return the content of an answer with this schema."""
    return {JSON: {"schema": {"$ref": REF.format(name=shape)}}}


def json_body(shape: str) -> dict[str, Any]:
    """Return a required body with this schema."""
    return {"required": True, "content": json_content(shape)}


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
        "paths": {
            "/startup": {"get": _open("Whether the proxy has started.", json_content("Health"))},
            "/live": {"get": _open("Whether the event loop answers.", json_content("Health"))},
            "/ready": {
                "get": _open("Whether the proxy accepts new clients.", json_content("Health"), 503)
            },
            "/version": {
                "get": _open("The version of Sluice and of Python.", json_content("Version"))
            },
            "/metrics": {"get": _open("The metrics for Prometheus.", _PAGE)},
            "/v1/state": {
                "get": _get("The whole state, with fifteen minutes of history.", "State")
            },
            "/v1/events": {
                "get": operation(
                    "The state once per second, as server-sent events `state` with an Event each.",
                    {200: {"text/event-stream": _TEXT}},
                    ALWAYS,
                )
            },
            "/v1/connections": {
                "get": _get(
                    "Connections: muted ones first, then those with most requests in flight.",
                    "ConnectionList",
                    [_limit(1000, 200)],
                )
            },
            "/v1/connections/{id}": {"delete": _close()},
            "/v1/pool": {"get": _get("The memory pools.", "PoolList")},
            "/v1/decisions": {
                "get": _get(
                    "Recent decisions, the newest first.", "DecisionList", [_limit(500, 100)]
                )
            },
            "/v1/quotas": _quotas(),
            "/v1/policies/{name}": _policy(),
            "/v1/drain": {
                "post": operation(
                    "Drain: answer the requests in flight, disconnect every client, stop.",
                    {202: json_content("Draining")},
                    CHANGES,
                    body=NOTHING,
                )
            },
            "/v1/reload": {
                "post": operation(
                    "Read the configuration again. 422: it is invalid, and nothing was changed.",
                    {200: json_content("Reloaded"), 422: json_content("Reloaded")},
                    (*CHANGES, 409),
                    body=NOTHING,
                )
            },
            "/v1/config": {"get": _get("The settings in force.", "RunningConfig")},
            "/v1/log-level": {
                "get": _get("The lowest level that is logged.", "LogLevel"),
                "put": operation(
                    "Set the log level until the next start.",
                    {200: json_content("LogLevel")},
                    CHANGES,
                    body=json_body("LogLevel"),
                ),
            },
            "/openapi.json": {
                "get": operation(
                    "This document.", {200: {JSON: {"schema": {"type": "object"}}}}, ALWAYS
                )
            },
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _get(
    summary: str, shape: str, parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return operation(summary, {200: json_content(shape)}, ALWAYS, parameters)


def _open(summary: str, content: Mapping[str, Any], *more: int) -> dict[str, Any]:
    answers = dict.fromkeys((200, *more), content)
    made = operation(summary, answers, tuple(code for code in OPEN if code not in more))
    made["security"] = []
    return made


def _close() -> dict[str, Any]:
    place = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    }
    made = operation("Close one client's connection.", {}, (*CHANGES, 404), [place], NOTHING)
    made["responses"]["204"] = {"description": "The connection was closed."}
    return made


def _policy() -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    place = [{"name": "name", "in": "path", "required": True, "schema": text}]
    shown = {200: json_content("PolicyState")}
    body = {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}
    get = "What a policy shows to operators, by the name of its entry."
    put = "Change a policy until Sluice stops, as the policy's page says."
    return {
        "get": operation(get, shown, (*ALWAYS, 404, 409, 500), place),
        "put": operation(put, shown, (*CHANGES, 404, 409, 500), place, body),
    }


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
    must = "The revision that the quotas must have; else 412 and no change."
    text = {"type": "string"}
    if_match = {"name": "If-Match", "in": "header", "description": must, "schema": text}
    which = {
        "name": "quota",
        "in": "query",
        "description": "Remove only this quota.",
        "schema": {"enum": list(schemas.QuotaLimits.__struct_fields__)},
    }
    why_not = (*CHANGES, 404, 409, 412, 500)
    changed = {200: json_content("QuotaList")}
    listed = operation("Every quota in force.", changed, (*ALWAYS, 404))
    put = "Set live quotas of one entity: a user, a client id, or both together."
    delete = "Remove live quotas of one entity; those of the files are in force again."
    return {
        "get": listed,
        "put": operation(put, changed, why_not, [*whose, if_match], json_body("QuotaLimits")),
        "delete": operation(delete, changed, why_not, [*whose, which, if_match], NOTHING),
    }


def _limit(highest: int, default: int) -> dict[str, Any]:
    return {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": highest, "default": default},
    }
