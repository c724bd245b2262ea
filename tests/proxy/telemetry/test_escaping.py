"""Text that a client chose, made safe to show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.escaping import escaped


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
def test_what_is_not_printable_is_shown_as_an_escape(text, shown):
    """Control characters, marks of direction, invisible ones; nothing else."""
    assert escaped(text) == shown


@given(st.text())
def test_what_is_shown_is_printable(text):
    """Whatever a client sends."""
    assert escaped(text).isprintable()
