"""Members of the lines of the audit log: bounded in bytes, and nothing is left out uncounted."""

import json

from hypothesis import given
from hypothesis import strategies as st

from policies.audit_facts import AuditFacts, AuditItem
from proxy.telemetry import audit_lines

NAMES = st.lists(st.text(max_size=300), max_size=200).map(tuple)


@given(NAMES)
def test_what_is_not_listed_is_counted(names):
    """The names have any characters."""
    found = audit_lines.fact_fields(AuditFacts(topics=names, left_out={"topics": 2, "done": 1}))
    listed = found["topics"]
    assert len(audit_lines.encode(listed).encode()) <= audit_lines.MAX_LIST_BYTES + 2
    assert found["left_out"] == {"topics": 2 + len(names) - len(listed), "done": 1}
    json.loads(audit_lines.encode(found))


@given(NAMES)
def test_of_what_was_done_nothing_is_left_out(names):
    """Each piece has its bound, and they are in order."""
    done = tuple(AuditItem(name, 0) for name in names)
    pieces = audit_lines.done_pieces(AuditFacts(done=done))
    assert [item.get("name", "") for piece in pieces for item in piece] == [
        audit_lines.safe_text(name) for name in names
    ]
    for piece in pieces:
        assert len(audit_lines.encode(piece).encode()) <= audit_lines.MAX_LIST_BYTES + 2
