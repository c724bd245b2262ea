"""Screen: the same figures on a terminal and in a log, and a last line that tells the verdict."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proxy.demo.board import Row
from proxy.demo.comparison import Arm, Comparison, Progress, Sample
from proxy.demo.screen import (
    COLUMNS,
    COMPARED,
    Plain,
    Screen,
    Terminal,
    cells,
    choose,
    comparison_cells,
    comparison_table,
    summary,
    table,
)
from proxy.demo.verdict import Check

ROWS = [
    Row("producer-1", "kafka-python", 99.6, 100.2, 1234, 0, 1.26, 4.9),
    Row("reader-1", "librdkafka", 420, 1025, 0, 5678, None, None),
]
GOOD = Check("nothing lost", True, "12 of 12")
BAD = Check("order intact", False, "consumed out of order: {'reader-1': 2}")


UNSURE = Check("untouched", None, "too busy")


def comparison() -> Comparison:
    """Return one with a sample of each arm."""
    made = Comparison(limit_per_s=100)
    made.add(Arm.ALONE, Sample(200, 6.96, 9.1, 0))
    made.add(Arm.WITHOUT, Sample(199, 34.3, 64.1, 18_078))
    made.add(Arm.WITH, Sample(200, 7.04, 9.9, 99.9))
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
        screen.compare(ROWS, Progress(comparison(), Arm.WITH, 2, 8))
        screen.close(ROWS, comparison(), [GOOD, BAD, UNSURE])


@pytest.mark.parametrize("terminal", [True, False])
def test_both_screens_show_the_figures_and_the_verdict(terminal: bool) -> None:  # noqa: FBT001 - pytest's way
    """Notes, every figure, every check and the last line are there."""
    on = console(terminal=terminal)

    play(choose(on, plain=False))

    text = written(on)
    for part in ("[1] at /dev/null", "1,234", "5,678", "1.3", "nothing lost", "{'reader-1': 2}"):
        assert part in text, part
    for part in ("noisy, quota 100/s", "34.3", "18,078", "2 of 8"):
        assert part in text, part
    assert "?? " in text
    assert "Verdict: failed (order intact); not judged: untouched" in text
    assert ("\x1b[" in text) == terminal


def test_plain_lines_come_every_two_seconds() -> None:
    """However often figures come in, a log gets one line a client each two seconds."""
    on = console(terminal=False)
    screen = Plain(on)

    for tenth in range(45):
        screen.show(ROWS, tenth / 10, 5)

    assert written(on).count("producer-1") == 2


def test_a_terminal_can_be_told_to_be_plain() -> None:
    """`plain` wins over what the terminal could do; without a terminal there is no choice."""
    assert isinstance(choose(console(terminal=True), plain=True), Plain)
    assert isinstance(choose(console(terminal=True), plain=False), Terminal)
    assert isinstance(choose(console(terminal=False), plain=False), Plain)


def test_a_missing_figure_is_a_dash() -> None:
    """What is not there is not shown as nought."""
    assert cells(ROWS[1])[4:] == ("-", "5,678", "-", "-")


def test_the_noisy_one_has_no_rate_while_it_rests() -> None:
    """The polite one alone stands beside nobody; an arm without a sample has no figure."""
    alone, without, held = comparison_cells(comparison())
    empty = comparison_cells(Comparison(limit_per_s=100))

    assert alone == ("nobody", "200", "7.0", "9.1", "-")
    assert (without[4], held[4]) == ("18,078", "100")
    assert {cell for line in empty for cell in line[1:]} == {"-"}


def test_plain_lines_tell_each_sample() -> None:
    """A log gets the sample that was taken last, with its arm and round."""
    on = console(terminal=False)

    Plain(on).compare(ROWS, Progress(comparison(), Arm.WITHOUT, 3, 8))

    (line,) = written(on).splitlines()
    assert line.split()[:7] == ["round", "3", "of", "8", "noisy,", "no", "quota"]
    assert "18,078" in line


def test_a_play_without_comparison_shows_none() -> None:
    """What was not played is not shown."""
    for terminal in (True, False):
        on = console(terminal=terminal)
        with choose(on, plain=False) as screen:
            screen.close(ROWS, None, [GOOD])

        assert COMPARED[0] not in written(on)
        assert "Verdict: passed" in written(on)


def test_the_last_line_passes_only_without_failures() -> None:
    """The summary names what failed, or says passed; what could not be judged is named, too."""
    assert summary([GOOD]) == "Verdict: passed"
    assert summary([GOOD, BAD]) == "Verdict: failed (order intact)"
    assert summary([GOOD, UNSURE]) == "Verdict: passed; not judged: untouched"


def test_the_tables_fit_eighty_columns() -> None:
    """On an old terminal no heading and no figure is cut."""
    on = Console(file=io.StringIO(), width=80)
    on.print(comparison_table(comparison(), "medians"))

    on.print(table([ROWS[0]._replace(acked=1_234_567), ROWS[1]], "5 s left"))

    assert "…" not in written(on)
    assert all(column in written(on) for column in (*COLUMNS, *COMPARED))
    assert "1,234,567" in written(on)
