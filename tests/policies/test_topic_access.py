"""Each request needs a kind of access: one that is not in the table needs the right to manage."""

from policies.topic_access import ANY, MANAGE, OPEN, READ, WRITE, access_needed
from tests.support.messages.every_case import for_each
from wire.apis import OFFERED, ApiKey, name_of
from wire.request_layouts import names_anything

CHANGES = ("Create", "Delete", "Alter", "Incremental", "Elect", "WriteTxn", "OffsetDelete")
NAMED = [key for key in OFFERED if names_anything(key)]


@for_each(NAMED)
def test_an_api_that_changes_something_needs_the_right_to_manage(key: int) -> None:
    """By its name; no other API needs it."""
    assert (access_needed(key) == MANAGE) == name_of(key).startswith(CHANGES)


def test_records_are_read_and_written_by_their_own_rights() -> None:
    """Any access is enough to see a topic."""
    assert access_needed(ApiKey.FETCH) == READ
    assert access_needed(ApiKey.PRODUCE) == WRITE
    assert access_needed(ApiKey.METADATA) == ANY == READ | WRITE | MANAGE


def test_no_open_request_changes_anything() -> None:
    """A request about topics that it does not name may look at them only."""
    assert not [name_of(key) for key in OPEN if access_needed(key) == MANAGE]
