"""Modules that are imported when they are used: nothing is loaded before, and nothing is missing afterwards."""

import subprocess
import sys

import pytest

IMPORT = "import sys; from proxy.late_module import import_late\n"


def run(code: str) -> str:
    """Return what a Python of its own prints: the modules of this one are all imported already."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_import_loads_nothing_until_an_attribute_is_used() -> None:
    """`import` of the name, and of a given attribute, loads no part of the package."""
    told = run(
        "import_late('asyncio', Given=3)\n"
        "import asyncio\nfrom asyncio import Given\n"
        "print(Given, 'asyncio.events' in sys.modules)\n"
        "print(asyncio.run.__module__, 'asyncio.events' in sys.modules)"
    )

    assert told.splitlines() == ["3 False", "asyncio.runners True"]


@pytest.mark.parametrize(
    "use",
    [
        "import asyncio; asyncio.run(asyncio.sleep(0))",
        "from asyncio import run, sleep; run(sleep(0))",
        "import asyncio.events, asyncio; asyncio.run(asyncio.sleep(0))",
        "import asyncio.events as e, asyncio; assert e._get_running_loop is asyncio._get_running_loop",
        "import asyncio as first; first.sleep; import asyncio; assert asyncio.sleep is first.sleep",
    ],
)
def test_a_library_that_uses_it_finds_all_of_it(use: str) -> None:
    """Each way of importing leads to the real module as soon as it is used."""
    run(f"import_late('asyncio')\n{use}")


def test_a_module_that_is_there_stays() -> None:
    """A module that was imported before is not replaced."""
    assert run("import html; import_late('html'); print(sys.modules['html'] is html)") == "True"


def test_an_unknown_attribute_is_still_an_error() -> None:
    """The module says itself that it has no such attribute."""
    code = "import_late('html')\nimport html\ntry: html.none\nexcept AttributeError as e: print(e)"
    assert "none" in run(code)


def test_a_proxy_that_runs_has_no_asyncio() -> None:
    """All that `sluice run` imports before its first connection uses none of the late modules."""
    told = run(
        "from proxy.process_setup import import_lean\nimport_lean()\n"
        "import proxy.app, proxy.admin.server, proxy.telemetry.traces.otlp_exporter\n"
        "late = {'asyncio.events', 'html.entities', 'charset_normalizer.api', 'rich'}\n"
        "print(sorted(late & sys.modules.keys()))"
    )

    assert told == "[]"
