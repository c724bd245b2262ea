"""The house itself: where files lie, how long they are, and that each has its test. More in `tests/house`.

ruff, mypy and import-linter check what they can; these tests check the rest.
"""

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages

from tests.support.house.house import (
    FILES,
    MODULES,
    ROOM_MODULES,
    ROOT,
    SOURCES,
    TEXT_FILES,
    facts,
    files_below,
    name,
    sleeps,
)

TOP_LEVEL = {
    *(
        "pyproject.toml",
        "README.md",
        "SECURITY.md",
        "LICENSE",
        "Makefile",
        "Dockerfile",
        "requirements",
    ),
    *("wire", "policies", "proxy", "pipeline", "helm", "tests", "bench", "docs", "examples"),
}
LONGEST = 400
LONGEST_MACHINE = 600
STATE_MACHINES = {
    "proxy/shell/event_loop.py",
    "proxy/core/session/request_stream.py",
    "proxy/core/session/parts.py",
    "proxy/core/session/session.py",
    "tests/support/model/reference_model.py",
}
"""To split one of these would cut one thought."""
# Written in parts, so that this file does not find itself.
MACHINE = re.compile("|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/t" + "mp/")))
REGISTRY = re.compile(
    "|".join(
        (
            "index-" + "url",
            "pypi" + r"\.org",
            "python" + "hosted",
            "repo1?" + r"\.maven",
            "npm" + "js",
        )
    )
)
_CORE = "proxy/core"
TESTED_WITH = {
    f"{_CORE}/auth/users_text.py": f"{_CORE}/auth/test_stored_users.py",
    f"{_CORE}/memory/claim.py": f"{_CORE}/memory/test_slow_clients.py",
    f"{_CORE}/memory/pair_shares.py": f"{_CORE}/test_waiting_shares.py",
    f"{_CORE}/memory/pool_part.py": f"{_CORE}/memory/test_reservations.py",
    f"{_CORE}/session/engine_options.py": f"{_CORE}/test_engine.py",
    f"{_CORE}/session/exchange_queue.py": f"{_CORE}/session/test_exchange.py",
    f"{_CORE}/session/grace_times.py": f"{_CORE}/session/test_broker_waits.py",
    f"{_CORE}/session/kept_produce.py": f"{_CORE}/session/test_broker_waits_kept.py",
    f"{_CORE}/session/logins.py": f"{_CORE}/session/test_session_sasl.py",
    f"{_CORE}/session/owner.py": f"{_CORE}/session/test_session_machine.py",
    f"{_CORE}/session/parts.py": f"{_CORE}/session/test_mutes.py",
    f"{_CORE}/session/plan_book.py": f"{_CORE}/session/test_plan.py",
    f"{_CORE}/session/policy_calls.py": f"{_CORE}/test_policy_faults.py",
    f"{_CORE}/session/rewrites.py": f"{_CORE}/test_engine_rewrites.py",
    f"{_CORE}/session/sasl_listener.py": f"{_CORE}/session/test_session_sasl.py",
    f"{_CORE}/session/sasl_side.py": f"{_CORE}/session/test_sasl_gate.py",
    f"{_CORE}/session/step_time.py": f"{_CORE}/test_engine.py",
    f"{_CORE}/session/throttled_channel.py": f"{_CORE}/session/test_mutes.py",
    f"{_CORE}/session/settled.py": f"{_CORE}/session/test_session.py",
    f"{_CORE}/session/shared_state.py": f"{_CORE}/test_engine.py",
    f"{_CORE}/session/whole_judgement.py": f"{_CORE}/session/test_large_requests.py",
    "proxy/shell/side_ending.py": "proxy/shell/test_event_loop_wall.py",
    "proxy/shell/system_calls.py": "compiled/test_system_calls.py",
    "pipeline/batches.py": "pipeline/test_added_rows.py",
    "pipeline/time_range.py": "pipeline/test_table_files.py",
    "pipeline/cli/all_jobs.py": "pipeline/end_to_end/test_make_report.py",
    "pipeline/errors.py": "pipeline/cli/test_main.py",
    "pipeline/report/facts.py": "pipeline/report/test_headline.py",
    "pipeline/report/markup.py": "pipeline/report/test_page.py",
    "pipeline/report/quota_sections.py": "pipeline/report/test_page.py",
    "pipeline/report/sections.py": "pipeline/report/test_page.py",
    "pipeline/report/time_axis.py": "pipeline/report/test_traffic_charts.py",
    "pipeline/report/traffic_sections.py": "pipeline/report/test_page.py",
    "pipeline/report/wait_sections.py": "pipeline/report/test_page.py",
    "pipeline/spark_errors.py": "pipeline/ingest/test_bad_input.py",
    "pipeline/hadoop.py": "pipeline/ingest/test_staging.py",
    "pipeline/ingest/merge.py": "pipeline/ingest/test_job.py",
    "pipeline/ingest/quality.py": "pipeline/ingest/test_job.py",
    "pipeline/ingest/reading.py": "pipeline/ingest/test_job.py",
    "pipeline/ingest/records.py": "pipeline/ingest/test_job.py",
    "pipeline/ingest/sequences.py": "pipeline/ingest/test_job.py",
    "pipeline/ingest/source.py": "pipeline/ingest/test_job.py",
    "pipeline/ingest/summary.py": "pipeline/cli/test_ingest.py",
    "pipeline/cli/whatif_tables.py": "pipeline/cli/test_whatif.py",
    "pipeline/data_quality.py": "pipeline/cli/test_whatif.py",
    "pipeline/whatif/capture.py": "proxy/test_capture_replay.py",
    "pipeline/whatif/channel_loop.py": "pipeline/whatif/test_closed_loop.py",
    "pipeline/whatif/delays.py": "pipeline/whatif/test_closed_loop.py",
    "pipeline/whatif/demand.py": "pipeline/whatif/test_closed_loop.py",
    "pipeline/whatif/entity_loop.py": "pipeline/whatif/test_closed_loop.py",
    "pipeline/whatif/flags.py": "pipeline/whatif/test_predict.py",
    "pipeline/whatif/results.py": "pipeline/whatif/test_predict.py",
    "pipeline/whatif/second.py": "pipeline/whatif/test_closed_loop.py",
    "proxy/broker_talk.py": "proxy/test_broker_probe.py",
    "proxy/demo/play.py": "proxy/demo/test_scenario.py",
    "policies/host_tools.py": "policies/test_entry_tools.py",
    "policies/request_hooks.py": "policies/test_chain.py",
    "policies/testing/bench_host.py": "policies/testing/test_policy_bench.py",
    "policies/testing/watched_calls.py": "policies/testing/test_policy_contract.py",
    "policies/testing/bench_request.py": "policies/testing/test_policy_bench.py",
    "proxy/testing.py": "proxy/cli/test_new_policy.py",
    "proxy/engine_settings.py": "proxy/test_app.py",
}
"""Modules whose tests stand in the file of the concept that they are part of."""


def test_the_top_level_is_fixed() -> None:
    """Nothing lies in the top folder but what the design names, and dotfiles."""
    there = {path.relative_to(ROOT).parts[0] for path in files_below(ROOT)}

    assert there <= TOP_LEVEL
    assert there >= TOP_LEVEL


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix in SOURCES], ids=name)
def test_no_file_is_long(path: Path) -> None:
    """A source file has at most 400 lines, a state machine 600."""
    longest = LONGEST_MACHINE if name(path) in STATE_MACHINES else LONGEST
    assert len(path.read_text("utf-8").splitlines()) <= longest


@pytest.mark.parametrize("path", ROOM_MODULES, ids=name)
def test_each_module_has_its_test_file(path: Path) -> None:
    """`room/part/name.py` has `tests/room/part/test_name.py`, or is tested with the concept that it is part of."""
    if path.stem in {"__init__", "__main__"}:
        return
    inside = path.relative_to(ROOT)
    own = inside.parent / f"test_{inside.name}"

    assert (ROOT / "tests" / TESTED_WITH.get(name(path), own)).is_file()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_each_module_says_what_it_is(path: Path) -> None:
    """Every module that has a line of code opens with a docstring."""
    assert not facts(path).has_code or facts(path).has_docstring


@pytest.mark.parametrize("path", [p for p in MODULES if p.name.startswith("test_")], ids=name)
def test_each_test_says_what_must_hold(path: Path) -> None:
    """Every test has a sentence."""
    assert not facts(path).silent_tests


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in MODULES
        if p.name.startswith("test_") and not {"integration", "end_to_end"} & set(p.parts)
    ],
    ids=name,
)
def test_unit_tests_do_not_sleep(path: Path) -> None:
    """No unit test waits for the wall clock."""
    assert not facts(path).sleeps


def test_sleeping_is_found_under_any_name() -> None:
    """The check above sees both ways of calling it, and nothing else."""
    code = "import time\nfrom time import sleep as nap\ntime.sleep(1)\nnap(1)\ntrio.sleep(1)\n"

    assert sleeps(list(ast.walk(ast.parse(code)))) == [3, 4]


@pytest.mark.parametrize("path", TEXT_FILES, ids=name)
def test_no_file_names_a_machine_or_a_registry(path: Path) -> None:
    """No file has a path of one machine or a package index, so that the project runs wherever it is cloned."""
    text = path.read_text("utf-8")

    assert not MACHINE.findall(text)
    assert not REGISTRY.findall(text)


EXCUSE = re.compile(r"# (noqa|type: ignore)(.*)")
REASON = re.compile(r"(: ?[A-Z]+\d+(, ?[A-Z]+\d+)*|\[[a-z-]+(, ?[a-z-]+)*\]) +(- |# )?\S")


@pytest.mark.parametrize("path", ROOM_MODULES, ids=name)
def test_every_exemption_gives_its_reason(path: Path) -> None:
    """`noqa` and `type: ignore` name the rule they break, and say why."""
    bare = [
        line.strip()
        for line in path.read_text("utf-8").splitlines()
        for excuse in [EXCUSE.search(line)]
        if excuse and not REASON.match(excuse[2])
    ]

    assert not bare


def test_ci_runs_what_contributors_run() -> None:
    """`.ci/run` can be run and calls `make test`, which checks, tests and integrates."""
    script = ROOT / ".ci" / "run"
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text("utf-8")
    assert re.search(
        r"^test: check\b.*\n.* integration unit jobs-end-to-end processes unit-compiled jobs$",
        makefile,
        re.MULTILINE,
    )


def test_the_wheel_carries_every_module() -> None:
    """Every module of the rooms lies in a package that setuptools finds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = set(find_packages(str(ROOT), include=settings["packages"]["find"]["include"]))
    lie = {".".join(path.parent.relative_to(ROOT).parts) for path in ROOM_MODULES}

    assert lie <= found
