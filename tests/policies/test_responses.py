"""The result of a request, as `on_complete` gets it."""

from policies.responses import UNKNOWN, PolicyRefusal, Result
from policies.testing import BenchResponse


def test_an_unknown_result_has_no_errors_and_no_refusal():
    """None is not an empty mapping: it is not known whether anything failed."""
    assert (UNKNOWN.errors, UNKNOWN.refusals, UNKNOWN.refused_by) == (None, (), "")
    assert Result(BenchResponse()).errors is None


def test_the_first_refusal_names_the_entry():
    """Several entries may deny a part of one request."""
    refusals = (PolicyRefusal("guard", 29, "no"), PolicyRefusal("limits", 44, ""))
    assert Result(None, refusals).refused_by == "guard"
