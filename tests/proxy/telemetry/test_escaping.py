"""Escaping of text that a client chose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.escaping import MAX_NAME_CHARS, escaped, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("billing-7", "billing-7"),
        ("żółć 日本 <default>", "żółć 日本 <default>"),
        ("DOMAIN\\user", "DOMAIN\\user"),
        ("a\x1b[2J\nb\x7f", "a\\x1b[2J\\nb\\x7f"),
        ("\u202eevil\u2066\u200b\u2028", "\\u202eevil\\u2066\\u200b\\u2028"),
        ("\ud800\U000e0001", "\\ud800\\U000e0001"),
    ],
)
def test_unprintable_characters_are_escaped(text, shown):
    """They are control characters, direction marks and invisible characters; no others are escaped."""
    assert escaped(text) == shown


@given(st.text())
def test_escaped_text_is_printable(text):
    """This holds for any text."""
    assert escaped(text).isprintable()


def test_a_name_in_a_log_line_is_printable_and_short():
    """Other characters are shown as a question mark; a printable short name stays as it is."""
    assert printable("a\x1b[2J\n" + "b" * 1000) == "a?[2J?" + "b" * (MAX_NAME_CHARS - 6)
    assert printable("billing", 4) == "bill"
    assert printable("żółć 日本") == "żółć 日本"
