"""Certificates of one authority for the tests of TLS."""

import ssl

import pytest

from proxy.shell.event_loop import EventLoop
from tests.support.core.sessions import make_engine
from tests.support.shell.sockets import HandClock
from tests.support.shell.tls import Contexts

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def event_loop():
    """Return an event loop without connections."""
    made = EventLoop(make_engine(), HandClock())
    yield made
    made.close()


@pytest.fixture(scope="module", params=VERSIONS, ids=["1.2", "1.3"])
def contexts(request, tmp_path_factory) -> Contexts:
    """Return contexts of one version for the tests of a module."""
    return Contexts.make(tmp_path_factory.mktemp("tls"), request.param)
