"""Report: the terminal and the page say the same, and the page loads nothing."""

from pathlib import Path

from proxy.demo.checks import Evidence, Finding, Phase, Sample, judge
from proxy.demo.report import html_of, lines_of, write_page

EVIDENCE = Evidence({1: "127.0.0.1:20002"})
EVIDENCE.samples = {
    Phase.ALONE: [Sample(6.96, 9.1, 0)],
    Phase.NO_QUOTA: [Sample(34.3, 64.1, 18_078)],
    Phase.QUOTA: [Sample(7.04, 9.9, 49.9, 50)],
}
FIGURES = ("7.0", "34.3", "64.1", "18,078", "noisy, quota 50/s")


def test_the_figures_and_the_verdict_are_shown() -> None:
    """Every figure, every finding and the verdict are on the terminal and on the page."""
    findings = judge(EVIDENCE)
    text, page = "\n".join(lines_of(EVIDENCE, findings)), html_of(EVIDENCE, findings)

    for part in (*FIGURES, *(finding.name for finding in findings), "Verdict: failed ("):
        assert part in text
        assert part in page
    for mark in ("ok   ", "FAIL "):
        assert f"\n{mark}" in text
    assert 'class="verdict bad"' in page


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    """It has no script and no address, text of other processes is escaped, and its folder is made."""
    path = tmp_path / "reports" / "run.html"
    write_page(path, EVIDENCE, [Finding("nothing lost", None, "<b>")])
    page = path.read_text("utf-8")

    assert "&lt;b&gt;" in page
    assert not any(part in page for part in ("<script", "http", "url(", "<b>"))
    assert 'class="verdict unsure"' in page


def test_without_phases_there_is_no_comparison() -> None:
    """With a usage log the page has the verdict alone."""
    page = html_of(Evidence({}), [Finding("nothing lost", True, "12 of 12")])

    assert "A noisy neighbour" not in page
    assert 'class="verdict ok">Verdict: passed' in page
