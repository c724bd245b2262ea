"""The compiled build does what the source does. It is skipped where there is no C compiler, with the reason.

`make test` compares it with the source in a few scripts. `make test-compiled` compares 10,000, and runs the suites of
the core, fuzz, faults, attacks and real clients.
"""

import os
import subprocess
import zipfile
from pathlib import Path
from typing import Final

import pytest

from bench.harness.compiled_build import build_compiled
from tests.support.house.house import ROOT
from tests.support.house.type_files import type_files
from tests.support.model.differential_counts import digest
from tests.support.processes.sluice_process import COMMAND
from tests.support.quotas import quota_counts

pytestmark = pytest.mark.timeout(14_400)  # the build may be part of any of these tests
SESSION: Final = "tests/proxy/core/session"
SUITES: Final = {
    "shell": ["tests/proxy/shell"],
    "core": ["tests/wire", "tests/policies", "tests/proxy/core"],
    "processes": ["tests/fuzz", "tests/faults", "tests/threats"],
    "clients": [
        f"tests/integration/test_{name}.py"
        for name in (
            *("produce_consume", "groups", "transactions", "java_clients", "quota_clients"),
            *("tls", "sasl", "records", "purgatory", "no_leak", "memory_promise"),
            *("killed_proxy", "metrics"),
        )
    ],
}
"""Against the compiled build. The suites `processes` and `clients` start a `sluice`, which is compiled, too."""
NOT_COMPILED: Final = {
    # A compiled exchange has no integer objects: the counted bytes are more than those it takes, never less.
    f"{SESSION}/test_in_flight.py::test_the_bytes_counted_for_pipelined_requests_are_those_they_hold",
    # These replace a method of a class or of its object, and a compiled class cannot be changed.
    "tests/proxy/shell/test_event_loop_turns.py::test_waiting_sessions_have_their_turns_equally_often",
    "tests/proxy/shell/test_event_loop_wall.py::test_a_session_that_raises_while_it_ends_is_closed_all_the_same",
    "tests/proxy/shell/test_acceptor.py::test_an_exception_about_one_client_ends_neither_its_listener_nor_the_next_client",
    "tests/proxy/shell/test_driver_turns.py::test_while_traffic_flows_every_event_of_a_task_is_seen",
    "tests/proxy/shell/test_listeners.py::test_at_the_limit_new_clients_wait_in_the_backlog",
    "tests/proxy/core/test_session_sweep.py::test_a_fault_of_one_session_ends_no_sweep",
    "tests/proxy/core/test_quota_gate.py::test_the_gates_pass_requests_in_these_plays",
}
"""Tests that hold for the source only."""


def test_the_compiled_wheel_has_every_module_with_types_and_its_source(compiled: Path) -> None:
    """A module with a type file is compiled, unless the others use its C functions; the `.py` files are there too."""
    for file in type_files():
        source = compiled / file.path.relative_to(ROOT).with_suffix(".py")
        objects = list(source.parent.glob(f"{source.stem}.*.so"))

        assert source.read_bytes() == file.path.with_suffix(".py").read_bytes()
        assert len(objects) == (0 if file.is_twin else 1), file.module
        assert not source.with_suffix(".pxd").exists()


def test_the_version_says_which_build_runs(run_compiled) -> None:
    """SLUICE_PURE=1 runs the source of an installed compiled wheel."""
    assert "compiled" in run_compiled("sluice", "version").stdout
    assert "pure" in run_compiled("sluice", "version", SLUICE_PURE="1").stdout
    assert "compiled" in run_compiled("sluice", "version", SLUICE_PURE="0").stdout


def test_a_sluice_that_a_test_starts_is_compiled(compiled: Path) -> None:
    """The console script takes the modules of PYTHONPATH, as the suites set it."""
    told = subprocess.run(
        [COMMAND, "version"],
        env={**os.environ, "PYTHONPATH": f"{compiled}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "compiled" in told.stdout


@pytest.mark.parametrize("scripts", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_both_builds_do_the_same(scripts: int, run_compiled) -> None:
    """The same bytes, verdicts, counters and reports in each of the scripts of the differential test."""
    told = run_compiled("tests.support.model.differential_counts", "0", str(scripts))

    assert told.stdout.split() == ["compiled", digest(0, scripts)], told.stderr


@pytest.mark.parametrize("plays", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_a_quota_does_the_same_in_both_builds(plays: int, run_compiled) -> None:
    """The same bytes, delays, rates and debts, to the last digit, in random plays of a quota."""
    told = run_compiled("tests.support.quotas.quota_counts", "0", str(plays))

    assert told.stdout.split() == ["compiled", quota_counts.digest(0, plays)], told.stderr


@pytest.mark.parametrize(
    "suite",
    ["shell", *(pytest.param(each, marks=pytest.mark.slow) for each in SUITES if each != "shell")],
)
def test_the_suites_hold_for_the_compiled_build(suite: str, compiled, run_compiled) -> None:
    """Each of their tests, except those of NOT_COMPILED."""
    options = [f"--deselect={each}" for each in NOT_COMPILED]
    options += ["-q", "-x", "-p", "no:cacheprovider", "-o", f"pythonpath={compiled} {ROOT}"]
    ran = run_compiled("pytest", *options, *SUITES[suite])

    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    assert " passed" in ran.stdout


def test_a_build_packs_nothing_that_an_earlier_one_left(
    compiled: Path, tmp_path: Path, *, has_slow_tests: bool
) -> None:
    """A module that is gone, or is no longer compiled, is not in the next wheel."""
    kept = ROOT / "build" / ("" if has_slow_tests else "unoptimised")
    left = sorted(kept.glob("lib.*/proxy/core/session"))
    for folder in left:
        (folder / "gone.py").write_text("")
        (folder / "settled.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")

    wheel = build_compiled(tmp_path, optimised=has_slow_tests)

    names = set(zipfile.ZipFile(wheel).namelist())
    assert left
    assert "proxy/core/session/session.py" in names
    assert not {each for each in names if "/gone." in each or "/settled.cpython" in each}
