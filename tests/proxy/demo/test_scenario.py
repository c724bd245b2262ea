"""Scenario: the demo passes through Sluice, and detects clients that bypass it."""

import io
import json
import re
from functools import partial
from pathlib import Path

import pytest
import trio
from rich.console import Console

from proxy.demo import clients, run
from proxy.demo import play as play_module
from proxy.demo.cluster import TRACES, Sluice
from proxy.demo.console import Screen
from proxy.demo.experiment import Schedule
from proxy.demo.habits import HABITS
from proxy.demo.play import play
from proxy.demo.processes import Brokers, DemoError
from proxy.demo.scenario import CONTESTANTS, PRODUCERS


class Direct(Sluice):
    """No Sluice at all: clients get the brokers' own addresses."""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Advertise the brokers themselves."""
        self.advertised = dict(brokers)
        self.bootstrap_port = int(brokers[1].rpartition(":")[2])

    async def set_quota(self, client_id: str, requests_per_s: float | None) -> None:
        """Brokers of the mock cluster have no quotas."""

    async def stop(self) -> int | None:
        """There is nothing to stop."""
        return 0

    def last_lines(self) -> str:
        """Return something."""
        return "the last line of the log"


class Broken(Direct):
    """A Sluice whose ports are taken."""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Fail."""
        raise DemoError("every port is taken")


def test_every_client_of_the_scenario_has_a_role() -> None:
    """The producers that the scenario starts are those that a client process can play."""
    assert {*PRODUCERS, *CONTESTANTS, *HABITS} == set(clients.PRODUCERS)


async def perform(
    sluice_of: type[Sluice], schedule: Schedule, page: Path | None = None
) -> tuple[int, str]:
    """Run the demo and return its exit code and output."""
    console = Console(file=io.StringIO(), width=200)
    code = await play(schedule, Screen(console), sluice_of, page)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


@pytest.mark.slow
async def test_the_demo_passes_through_sluice(tmp_path: Path) -> None:
    """With Sluice in front every check of the first part holds and the exit code is 0; the addresses of the dashboard
    and of the page are printed.
    """
    page = tmp_path / "reports" / "run.html"
    code, text = await perform(Sluice, Schedule(job_s=3, rounds=0), page)

    assert code == 0, text
    assert re.search(r"^dashboard +http://127\.0\.0\.1:\d+/#token=\S+ ", text, re.MULTILINE)
    assert text.endswith(f"The page of this run: {page}\n")
    assert "What Sluice itself observed" in page.read_text("utf-8")
    assert "Verdict: passed" in page.read_text("utf-8")
    assert "Verdict: passed" in text
    assert "FAIL" not in text


@pytest.mark.slow
async def test_the_noisy_producer_is_held_to_its_quota() -> None:
    """One round is enough to see the quota hold, and every request is answered in the end.

    Latencies are not tested: this machine may be busy with other tests. A rate within the quota's burst is
    then not judged either; one beyond it is a failure on any machine.
    """
    _, text = await perform(Sluice, Schedule(job_s=1, rounds=1))

    assert "the noisy producer is held to its quota" in text, text
    assert "FAIL the noisy producer is held to its quota" not in text, text
    assert "ok   every record acked" in text, text


@pytest.mark.slow
async def test_the_demo_detects_a_bypass(tmp_path: Path) -> None:
    """Without Sluice no record is missing, but the checks of the sockets and of the quota fail.

    A page that cannot be written changes no verdict; the reason is printed instead of its path.
    """
    (tmp_path / "file").touch()
    schedule = Schedule(job_s=1, rounds=1)
    code, text = await perform(Direct, schedule, tmp_path / "file" / "run.html")

    assert code == 1, text
    assert "FAIL brokers reached only through Sluice" in text
    assert "FAIL the noisy producer is held to its quota" in text
    assert "ok   nothing lost" in text
    assert "could not be written" in text


async def test_a_demo_that_fails_says_why() -> None:
    """A part that does not start ends the demo with exit code 1 and its reason, without a verdict."""
    code, text = await perform(Broken, Schedule(job_s=1, rounds=0))

    assert code == 1
    assert "every port is taken" in text
    assert "the last line of the log" in text
    assert "Verdict" not in text


async def test_a_demo_that_fails_writes_no_page(tmp_path: Path) -> None:
    """Without evidence there is nothing to show."""
    await perform(Broken, Schedule(job_s=1, rounds=0), tmp_path / "run.html")

    assert not await trio.Path(tmp_path / "run.html").exists()


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt, 130), (None, 0)], ids=["interrupted", "passed"]
)
def test_the_exit_code_is_that_of_the_run(
    error: type[BaseException] | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt has a code of its own, and prints no traceback."""

    async def played(*_: object, **__: object) -> int:
        async with trio.open_nursery():
            if error is not None:
                raise error
        return 0

    monkeypatch.setattr(play_module, "play", played)

    assert run(1, plain=True) == code


def test_missing_clients_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the extra's libraries the demo prints what to install, with an exit code of its own."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert run(1, plain=True) == 2
    assert "kafka-sluice[demo]" in capsys.readouterr().out


@pytest.mark.slow
async def test_clients_with_habits_leave_a_usage_log_and_traces(tmp_path: Path) -> None:
    """The folder has rows of all families and spans; the quota of alice is in her rows, and the checks hold."""
    console = Console(file=io.StringIO(), width=200)
    log = tmp_path / "new" / "log"
    schedule = Schedule(job_s=1, rounds=2)

    code = await play(schedule, Screen(console), partial(Sluice, usage_log=log), has_habits=True)

    assert isinstance(console.file, io.StringIO)
    assert code == 0, console.file.getvalue()
    families = {path.name for path in log.iterdir() if path.is_dir()}
    assert families == {"entity", "api", "instance", "topic", "capture"}
    texts = [file.read_text("utf-8") for file in log.rglob("entity-*.jsonl")]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {*HABITS} <= {row["client_id"] for row in rows}
    assert {row["quota_rate"] for row in rows if row["client_id"] == "alice"} == {
        HABITS["alice"].quota
    }
    assert (log / TRACES).stat().st_size > 0
