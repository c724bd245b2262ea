"""The demo as a whole: real clients through a real Sluice, its output, its page and its exit codes."""

import json
import re
from pathlib import Path

import pytest

from proxy.demo import act, run
from proxy.demo.checks import Evidence
from proxy.demo.processes import DemoError
from proxy.demo.roles import QUOTAS
from proxy.demo.sluice import TRACES

JUDGED_ANYWHERE = (
    "every record acked",
    "nothing lost, order intact",
    "clients know Sluice only",
    "Sluice exited cleanly",
)


def test_the_demo_passes_through_sluice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One round is enough to see that nothing is lost, and that the quota is told to the noisy client.

    Latencies and rates are not tested: this machine may be busy with other tests.
    """
    page = tmp_path / "reports" / "run.html"
    run(1, page=page)
    text = capsys.readouterr().out

    for name in (*JUDGED_ANYWHERE, "the noisy client is told to slow down"):
        assert f"\nok   {name}: " in text, text
    assert re.search(r"^dashboard +http://127\.0\.0\.1:\d+/#token=\S+ ", text, re.MULTILINE)
    assert re.search(r"^\S+ +the noisy client is held to its quota: ", text, re.MULTILINE)
    assert text.endswith(f"The page of this run: {page}\n")
    assert "A noisy neighbour" in page.read_text("utf-8")


@pytest.mark.slow
def test_clients_with_quotas_leave_a_usage_log_and_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder has rows of all families and spans; the quota of alice is in her rows, and the checks hold."""
    log = tmp_path / "new" / "log"
    code = run(6, usage_log=log)

    assert code == 0, capsys.readouterr().out
    families = {path.name for path in log.iterdir() if path.is_dir()}
    assert families == {"entity", "api", "instance", "topic", "capture"}
    texts = [file.read_text("utf-8") for file in log.rglob("entity-*.jsonl")]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {*QUOTAS, "polite"} <= {row["client_id"] for row in rows}
    assert {row["quota_rate"] for row in rows if row["client_id"] == "alice"} == {QUOTAS["alice"]}
    assert (log / TRACES).stat().st_size > 0


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt, 130, "Interrupted: no verdict."),
        (DemoError("every port is taken"), 1, "The demo failed: every port is taken"),
    ],
)
def test_a_demo_that_does_not_end_says_why(
    *,
    error: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """It has an exit code of its own, no traceback, no verdict and no page."""

    def fail(*_: object) -> Evidence:
        raise error

    monkeypatch.setattr(act, "play", fail)

    assert run(1, page=tmp_path / "run.html") == code
    assert capsys.readouterr().out == f"{says}\n"
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_changes_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The reason is printed in place of its path; here the verdict is that nothing was seen."""
    monkeypatch.setattr(act, "play", lambda *_: Evidence({}))

    assert run(1, page=tmp_path) == 1
    assert "The page of this run could not be written: " in capsys.readouterr().out


def test_a_missing_client_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the extra's library the demo prints what to install, with an exit code of its own."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert run(1) == 2
    assert "kafka-sluice[demo]" in capsys.readouterr().out


def test_percentiles_are_values() -> None:
    """A percentile is the value that so many do not exceed, not one between two."""
    assert [act.percentile([5, 1, 3], percent) for percent in (1, 50, 99)] == [1, 3, 5]
