"""The reasons why a session ends, and the faults of clients and brokers that end one.

A fault is an exception; it closes the session in which it was raised, and no other.
"""

from __future__ import annotations

from enum import Enum


class CloseReason(Enum):
    """Why a session ended, as shown in logs, metrics and usage records."""

    CLIENT_CLOSED = "client_closed"
    BROKER_CLOSED = "broker_closed"
    CLIENT_RESET = "client_reset"
    BROKER_RESET = "broker_reset"
    CLIENT_TLS = "client_tls"
    BROKER_TLS = "broker_tls"
    CLIENT_PROTOCOL = "client_protocol"
    BROKER_PROTOCOL = "broker_protocol"
    POLICY = "policy"
    POLICY_FAULT = "policy_fault"
    PRINCIPAL_CHANGED = "principal_changed"
    AUTHENTICATION_REQUIRED = "authentication_required"
    AUTHENTICATION_FAILED = "authentication_failed"
    AUTHENTICATION_OVERLOADED = "authentication_overloaded"
    NO_TOKEN_KEYS = "no_token_keys"  # noqa: S105 - a reason
    SESSION_EXPIRED = "session_expired"
    CERTIFICATE_EXPIRED = "certificate_expired"
    USER_REMOVED = "user_removed"
    UPSTREAM_REFUSED = "upstream_refused"
    UPSTREAM_DIAL_TIMEOUT = "upstream_dial_timeout"
    UPSTREAM_AUTHENTICATION_FAILED = "upstream_authentication_failed"
    UPSTREAM_SESSION_EXPIRED = "upstream_session_expired"
    UPSTREAM_REQUEST_TIMEOUT = "upstream_request_timeout"
    REQUEST_READ_TIMEOUT = "request_read_timeout"
    REPLY_WRITE_TIMEOUT = "reply_write_timeout"
    MAX_CONNECTIONS_PER_IP = "max_connections_per_ip"
    MAX_CONNECTION_CREATION_RATE_PER_IP = "max_connection_creation_rate_per_ip"
    MAX_CONNECTIONS_PER_USER = "max_connections_per_user"
    EVICTED = "evicted"
    FIRST_REQUEST_TIMEOUT = "first_request_timeout"
    AUTHENTICATION_TIMEOUT = "authentication_timeout"
    IDLE = "idle"
    MAX_AGE = "max_age"
    PROXY_HEADER = "proxy_header"
    ROUTE_CHANGED = "route_changed"
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
        CloseReason.IDLE,
        CloseReason.MAX_AGE,
        CloseReason.ROUTE_CHANGED,
    }
)
"""With these reasons, no client loses a reply that it still waits for."""


class SessionFault(Exception):  # noqa: N818 - the family's name; its members end in Error
    """Ends one session for `reason`. The message describes the bytes or the event that caused it."""

    reason = CloseReason.INTERNAL


class ClientProtocolError(SessionFault):
    """The client violated the Kafka protocol."""

    reason = CloseReason.CLIENT_PROTOCOL


class ProxyHeaderError(SessionFault):
    """A connection of a load balancer does not begin with a PROXY header."""

    reason = CloseReason.PROXY_HEADER


class BrokerProtocolError(SessionFault):
    """The broker, or another server at its address, violated the Kafka protocol."""

    reason = CloseReason.BROKER_PROTOCOL


class OverloadedError(SessionFault):
    """A client that is not known yet sends too slowly, or too much, while others need the memory."""

    reason = CloseReason.AUTHENTICATION_OVERLOADED


class PrincipalChangedError(SessionFault):
    """A re-authentication ended in another user or mechanism, which Kafka forbids (KIP-368)."""

    reason = CloseReason.PRINCIPAL_CHANGED


class UpstreamAuthenticationError(SessionFault):
    """A broker has refused Sluice's own credentials, or cannot prove that it knows them. The text has no secret."""

    reason = CloseReason.UPSTREAM_AUTHENTICATION_FAILED


class UpstreamSessionExpiredError(SessionFault):
    """The lifetime of Sluice's own authentication has ended before it could be renewed (KIP-368)."""

    reason = CloseReason.UPSTREAM_SESSION_EXPIRED


class CertificateExpiredError(SessionFault):
    """The client's certificate has ended while it was connected."""

    reason = CloseReason.CERTIFICATE_EXPIRED
