"""The build backend decides what is compiled again. Neither Cython nor a C compiler is needed."""

import importlib.util
import os
from types import ModuleType

import pytest

from tests.support.house import ROOT


@pytest.fixture
def backend() -> ModuleType:
    """Return the build backend, which lies in no package."""
    spec = importlib.util.spec_from_file_location("backend", ROOT / ".ci/build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_c_files_that_an_older_backend_has_made_are_stale(backend, tmp_path):
    """The directives and flags stand in the backend, and may have been others."""
    made = tmp_path / "wire" / "made.c"
    assert not backend.is_stale(tmp_path)
    made.parent.mkdir()
    made.write_text("")
    changed_s = (ROOT / ".ci/build_backend.py").stat().st_mtime

    os.utime(made, (changed_s + 1, changed_s + 1))
    assert not backend.is_stale(tmp_path)
    os.utime(made, (changed_s - 1, changed_s - 1))
    assert backend.is_stale(tmp_path)
