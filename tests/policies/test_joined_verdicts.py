"""What several policies say about one request, as one verdict."""

from __future__ import annotations

from itertools import product

import pytest

from policies.api import EXEMPT, FORWARD, Forward, Patch
from policies.joined_verdicts import join, without_exemption

FIRST, SECOND = Patch(0, b"\x01"), Patch(4, b"\x02")


@pytest.mark.parametrize(("first", "second"), list(product((FORWARD, EXEMPT, Forward()), repeat=2)))
def test_where_nothing_is_changed_it_is_the_very_object(first, second):
    """The core recognises FORWARD and EXEMPT by identity."""
    joined = join(first, second)
    assert joined is (EXEMPT if first.exempt or second.exempt else FORWARD)


def test_patches_add_up_and_the_last_body_counts():
    """In the order of the chain."""
    joined = join(Forward((FIRST,), b"old"), Forward((SECOND,), b"new"))
    assert joined == Forward((FIRST, SECOND), b"new")
    assert join(Forward(body=b"old"), Forward((SECOND,))) == Forward((SECOND,), b"old")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (EXEMPT, Forward((FIRST,))),
        (Forward((FIRST,)), EXEMPT),
        (FORWARD, Forward((FIRST,), exempt=True)),
    ],
)
def test_an_exemption_outlives_what_others_change(first, second):
    """Whoever says which."""
    joined = join(first, second)
    assert (joined.patches, joined.exempt) == ((FIRST,), True)


def test_without_its_exemption_a_verdict_changes_the_same():
    """And one that changes nothing is FORWARD itself."""
    assert without_exemption(EXEMPT) is FORWARD
    bare = without_exemption(Forward((FIRST,), b"body", exempt=True))
    assert (bare, bare.exempt) == (Forward((FIRST,), b"body"), False)
