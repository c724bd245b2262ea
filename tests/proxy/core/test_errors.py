"""Faults and close reasons: the side at fault, and the reason that a session ends with."""

import re

import pytest

from policies.chain import PolicyFault
from proxy.core.errors import (
    BrokerProtocolError,
    ClientProtocolError,
    CloseReason,
    PrincipalChangedError,
    SessionFault,
)
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from wire.errors import WireError


def test_every_close_reason_has_a_stable_name():
    """The names are read by machines, in logs and metrics."""
    values = [reason.value for reason in CloseReason]
    assert len(set(values)) == len(values)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", value) for value in values)
    assert all(reason.value == reason.name.lower() for reason in CloseReason)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ClientProtocolError, CloseReason.CLIENT_PROTOCOL),
        (BrokerProtocolError, CloseReason.BROKER_PROTOCOL),
        (PrincipalChangedError, CloseReason.PRINCIPAL_CHANGED),
        (SessionFault, CloseReason.INTERNAL),
    ],
)
def test_a_fault_has_the_reason_of_the_side_at_fault(kind, reason):
    """Its message says what was found."""
    fault = kind("a frame of -1 bytes")
    assert isinstance(fault, SessionFault)
    assert fault.reason is reason
    assert str(fault) == "a frame of -1 bytes"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ClientProtocolError("seen"), CloseReason.CLIENT_PROTOCOL),
        (BrokerProtocolError("seen"), CloseReason.BROKER_PROTOCOL),
        (PrincipalChangedError("seen"), CloseReason.PRINCIPAL_CHANGED),
        (WireError("seen"), CloseReason.BROKER_PROTOCOL),
        (RuntimeError("seen"), CloseReason.INTERNAL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_session_ends_with_the_reason_of_its_fault(fault, reason):
    """Malformed bytes are the fault of their sender; any other exception is a fault of Sluice."""
    wire = Wire()
    wire.session.fail(fault, CloseReason.BROKER_PROTOCOL)
    assert wire.session.ended
    assert (wire.session.reason, wire.session.detail) == (reason, "seen")
    assert wire.watcher.internal == ([fault] if reason is CloseReason.INTERNAL else [])


def test_a_fault_of_a_policy_names_the_policy():
    """It is reported when it is raised, and not as an internal error."""
    wire = Wire()
    wire.session.fail(PolicyFault("mine", "on_request"), CloseReason.CLIENT_PROTOCOL)
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert "mine" in wire.session.detail
    assert wire.watcher.internal == []


def test_a_fault_ends_its_own_session_only():
    """The other session still forwards requests."""
    failed = Wire()
    other = Wire(failed.engine)
    failed.client(b"GET / HTTP/1.1\r\n\r\n")
    assert failed.session.ended
    assert other.client(f.heartbeat(1)).broker(f.heartbeat_reply(1)).to_client
    assert not other.session.ended
