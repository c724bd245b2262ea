"""Stage: the demo passes through Sluice, and finds out when clients go past it."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
import trio
from rich.console import Console

from proxy.demo import run, stage
from proxy.demo.contest import Script
from proxy.demo.process import StageError
from proxy.demo.screen import Plain
from proxy.demo.sluice import Sluice
from proxy.demo.stage import play

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.demo.messages import Brokers
    from proxy.demo.sluice import Front


class Direct:
    """No Sluice at all: clients are pointed at the brokers."""

    def __init__(self, folder: Path) -> None:
        self.bootstrap_port = 0
        self.advertised: Brokers = {}
        self.pid: int | None = None
        self.dashboard = ""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Advertise the brokers themselves."""
        self.advertised = dict(brokers)
        self.bootstrap_port = int(brokers[1].rpartition(":")[2])

    async def limit(self, client_id: str, requests_per_s: float | None) -> None:
        """Brokers of the mock cluster hold nobody back."""

    async def maybe_seen(self) -> None:
        """Nobody to tell anything."""

    async def stop(self) -> int | None:
        """Nothing to stop."""
        return 0

    async def kill(self) -> None:
        """Nothing to end."""

    def last_lines(self) -> str:
        """Say something."""
        return "the front says goodbye"


class Broken(Direct):
    """A front that points at a port where nobody listens."""

    async def start(self, nursery: trio.Nursery, brokers: Brokers) -> None:
        """Start a Sluice whose ports are taken."""
        del nursery, brokers
        raise StageError("every port is taken")


async def perform(front: type[Front], script: Script, page: Path | None = None) -> tuple[int, str]:
    """Play the demo and return its exit code and what it wrote."""
    console = Console(file=io.StringIO(), width=200)
    code = await play(script, Plain(console), front, page)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


@pytest.mark.slow
async def test_the_demo_passes_through_sluice(tmp_path: Path) -> None:
    """With Sluice in front every check of the first part holds and the exit code is 0; the address of the dashboard is
    told, and where the page of the run is.
    """
    page = tmp_path / "reports" / "run.html"
    code, text = await perform(Sluice, Script(job_s=3, rounds=0), page)

    assert code == 0, text
    assert re.search(
        r"^look +http://127\.0\.0\.1:\d+/#token=\S+ while it runs$", text, re.MULTILINE
    )
    assert text.endswith(f"The page of this run: {page}\n")
    assert "What Sluice itself saw" in page.read_text("utf-8")
    assert "Verdict: passed" in page.read_text("utf-8")
    assert "Verdict: passed" in text
    assert "FAIL" not in text


@pytest.mark.slow
async def test_the_noisy_one_is_held_through_sluice() -> None:
    """One round is enough to see the quota hold, and all that was held back is answered in the end.

    Latencies are the demo's to judge: this machine may be busy with other tests. A rate within the quota's burst is
    then not judged either; one beyond it is a failure on any machine.
    """
    _, text = await perform(Sluice, Script(job_s=1, rounds=1))

    assert "the noisy one is held to its quota" in text, text
    assert "FAIL the noisy one is held to its quota" not in text, text
    assert "ok   every record acked" in text, text


@pytest.mark.slow
async def test_the_demo_finds_out_a_bypass() -> None:
    """Without Sluice the records are all there; the sockets and the noisy one's rate tell."""
    code, text = await perform(Direct, Script(job_s=2, rounds=1))

    assert code == 1, text
    assert "FAIL brokers reached only through Sluice" in text
    assert "FAIL the noisy one is held to its quota" in text
    assert "ok   nothing lost" in text


async def test_a_demo_that_cannot_be_played_says_why() -> None:
    """A part that does not start ends the demo with exit code 1 and its reason, never a verdict."""
    code, text = await perform(Broken, Script(job_s=1, rounds=0))

    assert code == 1
    assert "every port is taken" in text
    assert "the front says goodbye" in text
    assert "Verdict" not in text


async def test_a_demo_that_cannot_be_played_leaves_no_page(tmp_path: Path) -> None:
    """There is nothing to tell of a run that was none."""
    await perform(Broken, Script(job_s=1, rounds=0), tmp_path / "run.html")

    assert not await trio.Path(tmp_path / "run.html").exists()


@pytest.mark.slow
async def test_a_page_that_cannot_be_written_changes_no_verdict(tmp_path: Path) -> None:
    """The reason is told instead of the path."""
    (tmp_path / "file").touch()
    code, text = await perform(Sluice, Script(job_s=1, rounds=0), tmp_path / "file" / "run.html")

    assert code == 0, text
    assert "could not be written" in text


@pytest.mark.parametrize(
    ("happening", "code"), [(KeyboardInterrupt, 130), (None, 0)], ids=["interrupted", "passed"]
)
def test_the_command_tells_how_it_ended(
    happening: type[BaseException] | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is the stage's; an interrupt is one of its own, without a traceback."""

    async def played(*_: object, **__: object) -> int:
        async with trio.open_nursery():
            if happening is not None:
                raise happening
        return 0

    monkeypatch.setattr(stage, "play", played)

    assert run(1, plain=True) == code


def test_missing_clients_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the extra's libraries the demo says what to install, with an exit code of its own."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert run(1, plain=True) == 2
    assert "kafka-sluice[demo]" in capsys.readouterr().out
