"""Text of clients, shown by commands and pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.escaping import escaped


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
