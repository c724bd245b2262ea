"""The settings of what Sluice shows: the admin server, metrics, traces, the usage log and the audit log."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from policies.type_names import describe_value
from policies.validation import Problem
from proxy.config.values import (
    DAY_MS,
    INT32_MAX,
    INT64_MAX,
    SERVER_PATTERN,
    SERVER_WORDS,
    FileBytes,
    Milliseconds,
    check_server,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOCKET_BYTES = 107
"""The longest path of a Unix socket on Linux."""
MAX_ADMIN_CONNECTIONS = 32
"""Of each listener of the admin server; one more closes the oldest."""
AUTO = "auto"
NO_SOCKET = ("none", "")

Family = Literal["entity", "api", "instance", "topic", "access", "capture"]


class AdminSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The admin server. It opens no port unless an address is given."""

    listen: Annotated[
        str,
        Meta(
            description="HOST:PORT of /startup, /live, /ready, /metrics and /version, without authentication. "
            "Empty = not served."
        ),
    ] = ""
    socket: Annotated[
        str,
        Meta(
            description="Path of a Unix socket (mode 0600, at most 107 bytes) for the dashboard and the control API. "
            "`auto` = in a private folder of the user, where `sluice top` and `sluice ctl` find it. `none` = no socket."
        ),
    ] = AUTO
    control: Annotated[
        str,
        Meta(
            description="HOST:PORT of the dashboard and the control API over TCP. Requires `token_file`. "
            "Empty = not served."
        ),
    ] = ""
    token_file: Annotated[
        str,
        Meta(
            description="File with the token (16 characters or more) that callers of `control` present. It is "
            "read again when it changes."
        ),
    ] = ""
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Host headers that `control` and `socket` accept, besides their own address and localhost."
        ),
    ] = ()
    trace_url: Annotated[
        str,
        Meta(
            description="URL of a trace for the links of the dashboard; {trace_id} stands for the id. Empty = no links."
        ),
    ] = ""

    def max_connections(self) -> int:
        """Return how many connections all listeners together serve at once."""
        listeners = (self.listen, self.is_auto or self.socket_path, self.control)
        return MAX_ADMIN_CONNECTIONS * sum(map(bool, listeners))

    @property
    def is_auto(self) -> bool:
        """Return whether the socket is the one in the user's private folder."""
        return self.socket == AUTO

    @property
    def socket_path(self) -> str:
        """Return the path that the settings name; empty if they name none."""
        return "" if self.socket in (AUTO, *NO_SOCKET) else self.socket

    @property
    def is_served(self) -> bool:
        """Return whether the settings name an address or a path; then events are kept from the start."""
        return bool(self.listen or self.socket_path or self.control)

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for bad addresses, control without a token, a path that is too long, and a bad URL."""
        for name in ("listen", "control"):
            text = getattr(self, name)
            if text and (not re.fullmatch(SERVER_PATTERN, text) or check_server(text)):
                yield Problem(name, describe_value(text), SERVER_WORDS)
        if self.control and not self.token_file:
            yield Problem("token_file", "nothing", "a file with a token, because control is set")
        if self.control and self.control == self.listen:
            yield Problem("control", describe_value(self.control), "another address than listen")
        path_bytes = len(os.fsencode(self.socket_path))
        if path_bytes > MAX_SOCKET_BYTES:
            yield Problem("socket", f"{path_bytes} bytes", f"at most {MAX_SOCKET_BYTES} bytes")
        if self.trace_url and not re.match(r"https?://", self.trace_url):
            yield Problem(
                "trace_url", describe_value(self.trace_url), "a URL with http:// or https://"
            )


class MetricsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The metrics at /metrics."""

    max_users: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Number of users with time series of their own. All others are `other`.",
        ),
    ] = 100
    max_quota_entities: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Number of quota entities with time series of their own: rate, limit and throttle times. "
            "0 = none.",
        ),
    ] = 0
    otlp: Annotated[
        bool, Meta(description="Also push the metrics by OTLP, as the OTEL_* variables say.")
    ] = False


class TracesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which requests have a trace, and where traces are sent. The OTEL_* variables have further settings."""

    export: Annotated[
        Literal["auto", "otlp", "file", "none"],
        Meta(
            description="Where traces are sent. `auto` = `otlp` if OTEL_EXPORTER_OTLP_ENDPOINT or "
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, `file` if `traces.file` is set, else `none`."
        ),
    ] = "auto"
    file: Annotated[str, Meta(description="File that OTLP JSON lines are appended to.")] = ""
    max_file_bytes: Annotated[
        FileBytes,
        Meta(
            description="Size at which the file becomes FILE.1, replacing the previous one, and a new file begins."
        ),
    ] = 256 << 20
    sample_every_requests: Annotated[
        int,
        Meta(
            ge=0,
            le=INT32_MAX,
            description="One in this many ordinary requests is traced. 0 = none.",
        ),
    ] = 0
    slow_ms: Annotated[
        Milliseconds,
        Meta(
            description="Broker time from which a request is slow and is traced. A fetch may use its max_wait_ms in "
            "addition. 0 = never."
        ),
    ] = 1000
    max_spans_per_second: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Spans made per second, with bursts of twice as many. More are dropped and counted.",
        ),
    ] = 200


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The audit log: administrative requests and requests that a policy refused."""

    file: Annotated[
        str, Meta(description="File that JSON lines are appended to. Empty = no audit log.")
    ] = ""
    max_file_bytes: Annotated[
        FileBytes,
        Meta(
            description="Size at which the file becomes FILE.1, replacing the previous one, and a new file begins."
        ),
    ] = 64 << 20


class UsageLogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The usage log: one JSON line per active key and second."""

    directory: Annotated[
        str, Meta(description="Folder of the files (JSON lines). Empty = no usage log.")
    ] = ""
    instance: Annotated[
        str,
        Meta(description="Name of this process in file names and rows. Empty = the host's name."),
    ] = ""
    families: Annotated[
        tuple[Family, ...],
        Meta(
            min_length=1,
            description="Families of rows to write. `topic`, `access` and `capture` are opt-in.",
        ),
    ] = ("entity", "api", "instance")
    rotate_ms: Annotated[
        int, Meta(ge=1000, le=DAY_MS, description="Time after which a file is closed.")
    ] = 60_000
    rotate_bytes: Annotated[
        int, Meta(ge=1 << 12, le=INT64_MAX, description="Size at which a file is closed.")
    ] = 16 << 20
    keep_bytes: Annotated[
        int,
        Meta(
            ge=1 << 16,
            le=INT64_MAX,
            description="Size of all files together; the oldest are deleted beyond it.",
        ),
    ] = 1 << 30
    topic: Annotated[
        str,
        Meta(
            description="Kafka topic that the rows are also published to, directly at the brokers. "
            "Empty = none."
        ),
    ] = ""
    max_capture_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=86_400,
            description="Time after which the family `capture`, a row per request, ends.",
        ),
    ] = 600
