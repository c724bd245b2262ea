"""The sections of RESULTS.md."""

from bench.memory.figures import Case, max_goal
from bench.memory.report import section, with_cases

FACTS = {"Measured": "today", "Kafka": "4"}
FOLDER = "/some" + "where/deep/"


def case(name: str = "a", title: str = "a. One") -> Case:
    """Return a case with every field that a case may have."""
    return Case(
        name,
        title,
        "What was done.",
        ["", "acked"],
        [["whole", "5"]],
        [max_goal("wait", "s", 12.0, 10)],
        {"envoy": f"{FOLDER}envoy | is\nnot there"},
        f"file {FOLDER}sluice.yaml",
    )


def test_a_case_shows_all_its_fields() -> None:
    """Goals first, then figures, output, omissions, and the place of measurement."""
    text = section(case(), FACTS)
    marks = ("### a. One", "What was done.", "**NOT MET**", "| whole | 5 |", "```text", "envoy")
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert text.endswith("Measured today; Kafka 4.")


def test_no_folder_of_this_machine_is_shown() -> None:
    """Only file names are shown, and a reason stays in its cell."""
    text = section(case(), FACTS)
    assert FOLDER not in text
    assert "file sluice.yaml" in text
    assert "| envoy | envoy / is not there |" in text


def test_a_case_that_did_not_end_says_so() -> None:
    """With the reason, and without empty tables."""
    text = section(Case("x", "x.", "Law.", error="OSError: gone"), FACTS)
    assert "**Failed:** OSError: gone" in text
    assert "|" not in text


def test_writing_one_case_keeps_the_others() -> None:
    """A section replaces the one of its name; the rest of the file stays."""
    text = with_cases("# Costs\n", [case(), case("d", "d. Burst")], FACTS)
    again = with_cases(text, [case("d", "d. Another")], FACTS)
    assert again.startswith("# Costs\n")
    assert again.count("## Memory limits") == 1
    assert "### a. One" in again
    assert "d. Burst" not in again
    assert again.index("### a. One") < again.index("### d. Another")
