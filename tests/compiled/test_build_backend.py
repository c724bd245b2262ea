"""The build backend decides what is compiled again, and how. Cython is not needed."""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.house.house import ROOT


@pytest.fixture
def backend() -> ModuleType:
    """Return the build backend, which lies in no package."""
    spec = importlib.util.spec_from_file_location("backend", ROOT / ".build/build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_c_files_that_an_older_backend_has_made_are_stale(backend, tmp_path):
    """The directives and flags stand in the backend, and may have been others. So may the C functions of a twin."""
    made = tmp_path / backend.compiled_modules()[0].replace(".py", ".c")
    gone = made.with_name("gone.c")
    assert not backend.is_stale(tmp_path)
    made.parent.mkdir(parents=True)
    made.write_text("")
    gone.write_text("")
    os.utime(gone, (0, 0))
    sources = [ROOT / ".build/build_backend.py", *(ROOT / each for each in backend.TWINS)]
    assert len(sources) > 1
    changed_s = max(each.stat().st_mtime for each in sources)

    os.utime(made, (changed_s + 1, changed_s + 1))
    assert not backend.is_stale(tmp_path)
    os.utime(made, (changed_s - 1, changed_s - 1))
    assert backend.is_stale(tmp_path)


def test_no_product_and_sum_are_rounded_as_one(backend, tmp_path):
    """Such an instruction has other digits than Python; the compiler uses it for a processor that has it."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no C compiler ({compiler})")
    processor = ("-mfma",) if platform.machine() == "x86_64" else ()
    source = tmp_path / "made.c"
    source.write_text("double f(double a, double b, double c) { return a * b + c; }\n")

    assert not fuses(compiler, source, *backend.FLAGS, *processor)
    if not fuses(compiler, source, "-O2", "-ffp-contract=fast", *processor):
        pytest.skip("this processor has no such instruction")


def fuses(compiler: str, source: Path, *flags: str) -> bool:
    """Return whether the assembly of the source multiplies and adds in one instruction."""
    command = [compiler, "-S", "-o", "-", *flags, str(source)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return "fmadd" in done.stdout
