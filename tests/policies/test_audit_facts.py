"""The facts of a line in the audit log; `test_audit.py` has the policy that finds them."""

from policies.audit_facts import AuditFacts, FailedItem


def test_unknown_is_not_empty():
    """A line without facts says nothing of names and errors; one with none says that there are none."""
    assert AuditFacts() == (None, None, None, 0, "")
    assert AuditFacts(errors=()) != AuditFacts()


def test_the_whole_request_has_no_name():
    """A failed partition has both."""
    assert not FailedItem("", None, "INVALID_REQUEST").name
    assert FailedItem("orders", 0, "INVALID_REQUEST").partition == 0
