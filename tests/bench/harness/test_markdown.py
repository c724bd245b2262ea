"""Sections of RESULTS.md."""

from bench.harness.markdown import keep_sections, put_section


def test_a_section_is_replaced_where_it_stands() -> None:
    """Only what is between its own comments changes."""
    text = put_section(put_section("# Results\n", "quota", "old"), "other", "stays")

    assert put_section(text, "quota", "new") == text.replace("old", "new")


def test_sections_are_kept_when_the_rest_is_rewritten() -> None:
    """Every section of the old text is at the end of the new one, once, after any number of rewrites."""
    old = put_section(put_section("# Results\n", "quota", "| a |"), "other", "stays")

    once = keep_sections(old, "# Newer\n")

    assert once.startswith("# Newer\n")
    assert "<!-- quota -->\n| a |\n<!-- /quota -->" in once
    assert keep_sections(once, "# Newer\n") == once
