"""The settings of what can be seen from outside: the admin server, traces, metrics, the usage log."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from policies.type_names import found
from policies.validation import Problem
from proxy.config.values import SERVER_PATTERN, SERVER_WORDS, check_server

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SOCKET_BYTES = 107
"""The longest path that the kernel binds a Unix socket to."""
_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

Family = Literal["entity", "api", "instance", "topic", "capture"]


MAX_ADMIN_CONNECTIONS = 32
"""Each listener of the admin server serves so many at once; with one more the oldest is closed."""


AUTO = "auto"
NO_SOCKET = ("none", "")


class Admin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where operators look in. No port is opened unless an address is given."""

    listen: Annotated[
        str,
        msgspec.Meta(
            description="HOST:PORT of the endpoints open to every caller: /startup /live /ready /metrics /version. "
            "Empty = not served."
        ),
    ] = ""
    socket: Annotated[
        str,
        msgspec.Meta(
            description="Path of a Unix socket (mode 0600) for the dashboard and control. auto = in a private folder "
            "of the user that runs Sluice, where `sluice top` and `sluice ctl` find it; none = none."
        ),
    ] = AUTO
    control: Annotated[
        str,
        msgspec.Meta(
            description="HOST:PORT for the dashboard and control over TCP; needs token_file. Empty = none."
        ),
    ] = ""
    token_file: Annotated[
        str, msgspec.Meta(description="File with the token that callers of `control` must present.")
    ] = ""
    allowed_hosts: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="Host headers that `control` answers to, besides its own address and localhost."
        ),
    ] = ()
    trace_url: Annotated[
        str,
        msgspec.Meta(
            description="Address of a trace in your tracing backend, for links of the dashboard; {trace_id} "
            "stands for the id. Empty = no links."
        ),
    ] = ""

    def max_connections(self) -> int:
        """How many are served at once, by all listeners together."""
        listeners = (self.listen, self.is_auto or self.socket_path, self.control)
        return MAX_ADMIN_CONNECTIONS * sum(map(bool, listeners))

    @property
    def is_auto(self) -> bool:
        """Whether the socket is the one in the user's private folder."""
        return self.socket == AUTO

    @property
    def socket_path(self) -> str:
        """The path that the settings name; empty where they name none."""
        return "" if self.socket in (AUTO, *NO_SOCKET) else self.socket

    @property
    def is_served(self) -> bool:
        """Whether the settings name an address or a path: then what happens is kept from the start."""
        return bool(self.listen or self.socket_path or self.control)

    def mistakes(self) -> Iterator[Problem]:
        """Addresses that are none, control for everybody, a path too long for a socket, a link that is none."""
        for name in ("listen", "control"):
            text = getattr(self, name)
            if text and (not re.fullmatch(SERVER_PATTERN, text) or check_server(text)):
                yield Problem(name, found(text), SERVER_WORDS)
        if self.control and not self.token_file:
            yield Problem("token_file", "nothing", "a file with a token, because control is set")
        if self.control and self.control == self.listen:
            yield Problem("control", found(self.control), "another address than listen")
        path_bytes = len(os.fsencode(self.socket_path))
        if path_bytes > MAX_SOCKET_BYTES:
            yield Problem("socket", f"{path_bytes} bytes", f"at most {MAX_SOCKET_BYTES} bytes")
        if self.trace_url and not re.match(r"https?://", self.trace_url):
            yield Problem("trace_url", found(self.trace_url), "an address with http:// or https://")


class Traces(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which requests get a trace, and where it goes. The OTEL_* variables say the rest."""

    export: Annotated[
        Literal["auto", "otlp", "file", "none"],
        msgspec.Meta(
            description="auto: by OTLP if OTEL_EXPORTER_OTLP_ENDPOINT or its _TRACES_ form is set, into `file` "
            "if that is set, else nowhere."
        ),
    ] = "auto"
    file: Annotated[str, msgspec.Meta(description="OTLP JSON lines are appended to this file.")] = (
        ""
    )
    max_file_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=1 << 16, le=_INT64_MAX, description="The file is rotated once at this size."
        ),
    ] = 256 << 20
    sample_every_requests: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_INT32_MAX,
            description="Also trace one ordinary request in this many. 0 = none.",
        ),
    ] = 0
    slow_ms: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=_DAY_MS,
            description="A request is slow if the broker takes longer (a fetch: longer than it may wait). 0 = never.",
        ),
    ] = 1000
    max_spans_per_second: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=100_000,
            description="Further spans are dropped and counted; bursts of twice as many pass.",
        ),
    ] = 200


class Audit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The audit log: who did which administrative act, or was refused what."""

    file: Annotated[
        str, msgspec.Meta(description="JSON lines are appended to this file. Empty = no audit log.")
    ] = ""
    max_file_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=1 << 16,
            le=_INT64_MAX,
            description="At this size the file is renamed to FILE.1, which it replaces, and a new file begins.",
        ),
    ] = 64 << 20


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What /metrics shows."""

    max_users: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=1000,
            description="Number of users with series of their own; the rest is `other`.",
        ),
    ] = 100
    otlp: Annotated[
        bool,
        msgspec.Meta(description="Also push the metrics by OTLP, as the OTEL_* variables say."),
    ] = False


class UsageLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The usage log: one JSON line per active key and second."""

    directory: Annotated[
        str, msgspec.Meta(description="Where the files go. Empty = no usage log.")
    ] = ""
    instance: Annotated[
        str,
        msgspec.Meta(
            description="The name of this process in its files and rows. Default: the host's name."
        ),
    ] = ""
    families: Annotated[
        tuple[Family, ...], msgspec.Meta(min_length=1, description="The families of rows to write.")
    ] = ("entity", "api", "instance")
    rotate_ms: Annotated[
        int, msgspec.Meta(ge=1000, le=_DAY_MS, description="A file is closed after this time.")
    ] = 60_000
    rotate_bytes: Annotated[
        int, msgspec.Meta(ge=1 << 12, le=_INT64_MAX, description="A file is closed at this size.")
    ] = 16 << 20
    keep_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=1 << 16,
            le=_INT64_MAX,
            description="Size of all files together; beyond it the oldest are deleted.",
        ),
    ] = 1 << 30
    topic: Annotated[
        str,
        msgspec.Meta(
            description="A Kafka topic to which the rows are published as well, directly at the "
            "brokers. Empty = none."
        ),
    ] = ""
    capture_most_seconds: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=86_400,
            description="The family `capture` (a row per request) ends after this time.",
        ),
    ] = 600
