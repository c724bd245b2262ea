"""An engine for tests of the core."""

import pytest

from proxy.core.engine import Engine
from tests.support.core.sessions import make_engine


@pytest.fixture
def engine() -> Engine:
    """Return an engine whose time is far from 0."""
    return make_engine(now_ms=10_000_000)
