"""The parts of which the operations of the OpenAPI document are made: answers, errors, bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
