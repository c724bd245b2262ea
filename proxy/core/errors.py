"""Why a session ends, and whose fault it was.

Exceptions are for faults; each closes the session it happened in, and no other.
"""

from __future__ import annotations

from enum import Enum


class CloseReason(Enum):
    """Seen in log, metric and record."""

    CLIENT_CLOSED = "client_closed"
    BROKER_CLOSED = "broker_closed"
    CLIENT_RESET = "client_reset"
    BROKER_RESET = "broker_reset"
    CLIENT_PROTOCOL = "client_protocol"
    BROKER_PROTOCOL = "broker_protocol"
    POLICY = "policy"
    POLICY_FAULT = "policy_fault"
    PRINCIPAL_CHANGED = "principal_changed"
    UPSTREAM_REFUSED = "upstream_refused"
    UPSTREAM_DIAL_TIMEOUT = "upstream_dial_timeout"
    UPSTREAM_REQUEST_TIMEOUT = "upstream_request_timeout"
    REQUEST_READ_TIMEOUT = "request_read_timeout"
    REPLY_WRITE_TIMEOUT = "reply_write_timeout"
    UNKNOWN_NODE = "unknown_node"
    FILE_DESCRIPTORS_EXHAUSTED = "file_descriptors_exhausted"
    DRAINED = "drained"
    OPERATOR = "operator"
    DRAIN_TIMEOUT = "drain_timeout"
    INTERNAL = "internal"


ORDINARY = frozenset(
    {
        CloseReason.CLIENT_CLOSED,
        CloseReason.CLIENT_RESET,
        CloseReason.DRAINED,
    }
)
"""At these ends nobody has lost a reply that it still waits for."""


class SessionFault(Exception):  # noqa: N818 - the family's name; its members end in Error
    """Ends one session. `reason` says why, the message says what was seen."""

    reason = CloseReason.INTERNAL


class ClientProtocolError(SessionFault):
    """The client sent what no Kafka client may send."""

    reason = CloseReason.CLIENT_PROTOCOL


class BrokerProtocolError(SessionFault):
    """The broker (or whatever stands at its address) sent what no Kafka broker may send."""

    reason = CloseReason.BROKER_PROTOCOL


class PrincipalChangedError(SessionFault):
    """A re-authentication ended in another user or mechanism, which Kafka forbids (KIP-368)."""

    reason = CloseReason.PRINCIPAL_CHANGED
