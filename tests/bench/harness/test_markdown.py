"""Sections of RESULTS.md: each benchmark replaces its own."""

from bench.harness.markdown import keep_sections, place, put_section

OLD = "# Old\n\n<!-- one -->\n1\n<!-- /one -->\n\n<!-- two -->\n2\n<!-- /two -->\n"


def test_a_section_is_replaced_where_it_stands() -> None:
    """A new one comes last."""
    assert put_section(OLD, "one", "new") == OLD.replace("\n1\n", "\nnew\n")
    assert put_section(OLD, "three", "3") == f"{OLD}\n<!-- three -->\n3\n<!-- /three -->\n"


def test_the_sections_of_others_come_to_their_places_in_a_new_text() -> None:
    """Those without a place come last."""
    new = f"# New\n\n{place('two')}\n\nclosed loop\n"

    kept = keep_sections(OLD, new)

    assert kept == (
        "# New\n\n<!-- two -->\n2\n<!-- /two -->\n\nclosed loop\n\n<!-- one -->\n1\n<!-- /one -->\n"
    )
    assert keep_sections("", new) == new
