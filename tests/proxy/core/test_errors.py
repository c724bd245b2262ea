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
    ("fault", "reason"),
    [
        (ClientProtocolError("seen"), CloseReason.CLIENT_PROTOCOL),
        (BrokerProtocolError("seen"), CloseReason.BROKER_PROTOCOL),
        (PrincipalChangedError("seen"), CloseReason.PRINCIPAL_CHANGED),
        (WireError("seen"), CloseReason.BROKER_PROTOCOL),
        (PolicyFault("mine", "on_request"), CloseReason.POLICY_FAULT),
        (SessionFault("seen"), CloseReason.INTERNAL),
        (RuntimeError("seen"), CloseReason.INTERNAL),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_session_ends_with_the_reason_of_its_fault(fault, reason):
    """Malformed bytes are the fault of their sender, a policy is named; any other exception is a fault of Sluice."""
    wire = Wire()
    wire.session.fail(fault, CloseReason.BROKER_PROTOCOL)
    assert wire.session.ended
    assert (wire.session.reason, wire.session.detail) == (reason, str(fault))
    assert wire.watcher.internal == ([fault] if type(fault) is RuntimeError else [])


def test_a_fault_ends_its_own_session_only():
    """The other session still forwards requests."""
    failed = Wire()
    other = Wire(failed.engine)
    failed.client(b"GET / HTTP/1.1\r\n\r\n")
    assert failed.session.ended
    assert other.client(f.heartbeat(1)).broker(f.heartbeat_reply(1)).to_client
    assert not other.session.ended
