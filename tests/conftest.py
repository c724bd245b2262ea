"""Hypothesis plays the same examples each time and has no deadline, so that no test fails on a busy machine.

`HYPOTHESIS_PROFILE=default` looks for new ones, and `quick` plays fewer.

Garbage is collected while tests run, and not while they are found: that made half of the CPU of finding them.

Every Sluice that a test starts has its default admin socket in a folder of this run, and no test finds another Sluice
of this machine.
"""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from proxy.admin import default_socket

settings.register_profile("quick", settings.get_profile("ci"), max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_RUNTIME = tempfile.mkdtemp(prefix="sl")
atexit.register(shutil.rmtree, _RUNTIME, ignore_errors=True)
os.environ["XDG_RUNTIME_DIR"] = _RUNTIME
default_socket.ROOT_FOLDER = Path(_RUNTIME) / "root"

gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on; what is there now stays to the end, and need not be looked at."""
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="session")
def has_slow_tests(request: pytest.FixtureRequest) -> bool:
    """Return whether this run has slow tests, as `make test-all`: then tests spare no effort."""
    return any(item.get_closest_marker("slow") for item in request.session.items)
