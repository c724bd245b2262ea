"""OpenTelemetry's environment variables: the resource of the spans, and whether and where to send them.

Rules:
- They are read as OpenTelemetry specifies, without the SDK, because a trace file needs none: an empty variable counts
  as not set, and OTEL_SERVICE_NAME wins over OTEL_RESOURCE_ATTRIBUTES.
- No message contains the value of a variable: an endpoint or a header may hold a credential.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_NAME: Final = "sluice"
PROTOCOL: Final = "http/protobuf"
TIMEOUT_MS: Final = 10_000
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")


class TracesError(ValueError):
    """A variable is invalid or unsupported. The message names the variable, not its value."""


def resource_of(environ: Mapping[str, str], version: str) -> dict[str, str]:
    """Return the attributes of the resource: those of Sluice, overridden by the variables."""
    found = {"service.name": SERVICE_NAME, "service.version": version}
    for pair in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            found[unquote(key.strip())] = unquote(value.strip())
    named = environ.get("OTEL_SERVICE_NAME")
    if named:
        found["service.name"] = named
    return found


def wants_otlp(environ: Mapping[str, str]) -> bool:
    """Return whether the variables name an endpoint and none disables the export."""
    disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    none = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return not (disabled or none) and any(environ.get(name) for name in _ENDPOINTS)


def wants_traces(export: str, file: str, environ: Mapping[str, str]) -> bool:
    """Return whether these settings and variables ask for traces."""
    if export == "auto":
        return bool(file) or wants_otlp(environ)
    return export != "none"


def check_otlp(environ: Mapping[str, str]) -> None:
    """Check the variables of OTLP. Raises TracesError for values with which the SDK would fail silently later."""
    for name in _ENDPOINTS:
        endpoint = environ.get(name)
        if endpoint:
            try:
                url = urlsplit(endpoint)
                wrong = url.scheme not in {"http", "https"} or not url.hostname
            except ValueError:
                wrong = True
            if wrong:
                raise TracesError(
                    f"{name} is not a URL: expected http://HOST:PORT or https://HOST:PORT"
                )
            break
    for name in _PROTOCOLS:
        protocol = environ.get(name)
        if protocol:
            if protocol.strip().lower() != PROTOCOL:
                raise TracesError(f"{name} has an unsupported value: expected {PROTOCOL}")
            break


def timeout_ms(environ: Mapping[str, str]) -> int:
    """Return the timeout of one export in milliseconds. Raises TracesError."""
    return next((_number(environ, name) for name in _TIMEOUTS if environ.get(name)), TIMEOUT_MS)


def setting(environ: Mapping[str, str], name: str, default: int) -> int:
    """Return a variable that must be a positive whole number. Raises TracesError."""
    return _number(environ, name) if environ.get(name) else default


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise TracesError(f"{name} is invalid: expected a whole number of 1 or more")
    return int(text)
