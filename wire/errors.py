"""The exceptions for malformed bytes, and Kafka's own error codes.

`WireError` means that the protocol does not allow these bytes. It does not say whose fault that is: the core
knows which side sent them and closes that session alone.
"""

from __future__ import annotations

from enum import IntEnum


class WireError(ValueError):
    """The bytes are not valid in the Kafka protocol. The message says which rule they break."""


class BudgetError(WireError):
    """A frame has more elements than a walker may visit. Its bytes may still be valid."""


class ErrorCode(IntEnum):
    """The error codes that Sluice reads or writes, or that policies often need (Kafka: `Errors`)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    INVALID_REQUIRED_ACKS = 21
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    SASL_AUTHENTICATION_FAILED = 58
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    THROTTLING_QUOTA_EXCEEDED = 89
    REBOOTSTRAP_REQUIRED = 129
