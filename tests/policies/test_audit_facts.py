"""The facts of a line in the audit log; `test_audit.py` has the policy that finds them."""

from policies.audit_facts import AuditFacts, AuditItem


def test_unknown_is_not_empty():
    """A line without facts says nothing of names and errors; one with none says that there are none."""
    nothing = AuditFacts()
    assert (nothing.topics, nothing.groups, nothing.errors) == (None, None, None)
    assert not nothing.left_out
    assert AuditFacts(errors=()) != AuditFacts()


def test_the_whole_request_has_no_name():
    """A partition has both; without an error it was done."""
    assert not AuditItem("", None, "INVALID_REQUEST").name
    assert AuditItem("orders", 0, "INVALID_REQUEST").partition == 0
    assert not AuditItem("orders", 0).error
