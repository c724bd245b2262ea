"""Console: figures come from statuses alone; a terminal and a log show the same ones, and the verdict last."""

import io

import pytest
from rich.console import Console

from proxy.demo.checks import Finding
from proxy.demo.console import (
    CLIENT_COLUMNS,
    COMPARED_COLUMNS,
    ClientFigures,
    ClientRow,
    Screen,
    client_table,
    compared_cells,
    compared_table,
    summary,
)
from proxy.demo.experiment import Comparison, Condition, Progress, Sample
from proxy.demo.processes import ClientStatus

ROWS = [
    ClientRow("producer-1", "kafka-python", 99.6, 100.2, 1234, 0, 1.26, 4.9),
    ClientRow("reader-1", "librdkafka", 420, 1025, 0, 5678, None, None),
]
GOOD = Finding("nothing lost", True, "12 of 12")
BAD = Finding("order intact", False, "consumed out of order: {'reader-1': 2}")


UNSURE = Finding("untouched", None, "too busy")


def comparison() -> Comparison:
    """Return one with a sample of each arm."""
    made = Comparison(limit_per_s=100)
    made.add(Condition.ALONE, Sample(200, 6.96, 9.1, 0))
    made.add(Condition.NO_QUOTA, Sample(199, 34.3, 64.1, 18_078))
    made.add(Condition.QUOTA, Sample(200, 7.04, 9.9, 99.9))
    return made


def console(*, terminal: bool) -> Console:
    """Return a console that writes into a string."""
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=120, _environ={"TERM": "xterm"}
    )


def written(on: Console) -> str:
    """Return what was written."""
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def play(screen: Screen) -> None:
    """Show a short run."""
    with screen:
        screen.note("cluster  [1] at /dev/null")
        for tenth in range(25):
            screen.show(ROWS, 100 + tenth / 10, 2.5 - tenth / 10)
        screen.compare(ROWS, Progress(comparison(), Condition.QUOTA, 2, 8))
        screen.close(ROWS, comparison(), [GOOD, BAD, UNSURE])


@pytest.mark.parametrize("terminal", [True, False])
def test_both_screens_show_the_figures_and_the_verdict(terminal: bool) -> None:  # noqa: FBT001 - pytest's way
    """Notes, every figure, every finding and the verdict are shown."""
    on = console(terminal=terminal)

    play(Screen(on))

    text = written(on)
    for part in ("[1] at /dev/null", "1,234", "5,678", "1.3", "nothing lost", "{'reader-1': 2}"):
        assert part in text, part
    for part in ("noisy, quota 100/s", "34.3", "18,078", "2 of 8"):
        assert part in text, part
    assert "?? " in text
    assert "Verdict: failed (order intact); not judged: untouched" in text
    assert ("\x1b[" in text) == terminal


def test_plain_lines_come_every_two_seconds() -> None:
    """However often figures are shown, a log gets one line a client each two seconds."""
    on = console(terminal=False)
    screen = Screen(on)

    for tenth in range(45):
        screen.show(ROWS, tenth / 10, 5)

    assert written(on).count("producer-1") == 2


@pytest.mark.parametrize(("terminal", "plain"), [(True, True), (False, False), (False, True)])
def test_plain_output_has_no_live_table(*, terminal: bool, plain: bool) -> None:
    """With `plain`, or without a terminal, nothing is drawn over."""
    on = console(terminal=terminal)

    play(Screen(on, plain=plain))

    assert "\x1b[2K" not in written(on)
    assert "100 requests/s" in written(on)


def test_a_missing_figure_is_a_dash() -> None:
    """It is not shown as zero."""
    assert ROWS[1].cells()[4:] == ("-", "5,678", "-", "-")


def test_the_noisy_producer_has_no_rate_while_it_is_stopped() -> None:
    """A condition without a sample has no figure at all."""
    alone, no_quota, quota = compared_cells(comparison())
    empty = compared_cells(Comparison(limit_per_s=100))

    assert alone == ("nothing", "200", "7.0", "9.1", "-")
    assert (no_quota[4], quota[4]) == ("18,078", "100")
    assert {cell for line in empty for cell in line[1:]} == {"-"}


def test_a_log_gets_each_sample() -> None:
    """It gets the last sample, with its condition and round."""
    on = console(terminal=False)

    Screen(on).compare(ROWS, Progress(comparison(), Condition.NO_QUOTA, 3, 8))

    (line,) = written(on).splitlines()
    assert line.split()[:7] == ["round", "3", "of", "8", "noisy,", "no", "quota"]
    assert "18,078" in line


def test_without_an_experiment_no_comparison_is_shown() -> None:
    """The verdict is shown all the same."""
    for terminal in (True, False):
        on = console(terminal=terminal)
        with Screen(on) as screen:
            screen.close(ROWS, None, [GOOD])

        assert COMPARED_COLUMNS[0] not in written(on)
        assert "Verdict: passed" in written(on)


def test_the_verdict_is_passed_only_without_failures() -> None:
    """It names the findings that failed and those that could not be judged."""
    assert summary([GOOD]) == "Verdict: passed"
    assert summary([GOOD, BAD]) == "Verdict: failed (order intact)"
    assert summary([GOOD, UNSURE]) == "Verdict: passed; not judged: untouched"


def test_the_tables_fit_eighty_columns() -> None:
    """No heading and no figure is cut there."""
    on = Console(file=io.StringIO(), width=80)
    on.print(compared_table(comparison(), "medians"))

    on.print(client_table([ROWS[0]._replace(acked=1_234_567), ROWS[1]], "5 s left"))

    assert "…" not in written(on)
    assert all(column in written(on) for column in (*CLIENT_COLUMNS, *COMPARED_COLUMNS))
    assert "1,234,567" in written(on)


def test_the_recent_row_covers_two_seconds() -> None:
    """Rate and latency are those of the last four statuses; older ones do not count."""
    figures = ClientFigures("noisy", "librdkafka")
    for place in range(10):
        latency_us = 100_000 if place < 5 else 1_000
        status = ClientStatus(place, acked=50 * place, latencies_us=[latency_us] * 50)
        figures.add(status, place / 2)

    row = figures.recent()

    assert row.records_per_s == pytest.approx(100)
    assert (row.requests_per_s, row.acked, row.p99_ms) == (9, 450, 1)


def test_the_row_of_the_whole_run_leaves_out_idle_time() -> None:
    """Time before a client's first latency and after its last one lowers no rate."""
    figures = ClientFigures("reader-1", "librdkafka")
    for now_s, consumed in [(0.0, 0), (10.0, 0), (20.0, 100), (21.0, 200), (22.0, 300)]:
        latencies_us = [2_000] if consumed else []
        figures.add(ClientStatus(3.0, 0, consumed, latencies_us), now_s)
    figures.add(ClientStatus(0.0, 0, 300), 90.0)

    row = figures.whole()

    assert row.records_per_s == pytest.approx(100)
    assert (row.requests_per_s, row.consumed, figures.records) == (3, 300, 300)


def test_a_silent_client_has_no_figures() -> None:
    """Without a status there is no latency and every count is zero."""
    figures = ClientFigures("polite", "kafka-python")

    assert figures.recent() == ("polite", "kafka-python", 0, 0, 0, 0, None, None)
    assert figures.whole() == figures.recent()
    assert figures.records == 0
