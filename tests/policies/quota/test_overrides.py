"""The state file is read as it was written, and any other content is refused with a reason."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import PolicyConfigError
from policies.quota.alter import Change
from policies.quota.entity import DEFAULT_NAME, KEYS, MAX_VALUE, QuotaEntity
from policies.quota.overrides import apply_changes, decode, encode

NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.just(
    DEFAULT_NAME
)
ENTITY = st.builds(QuotaEntity, st.none() | NAME, st.none() | NAME).filter(
    lambda each: each.user is not None or each.client_id is not None
)
RATE = st.floats(0.001, MAX_VALUE)
WHOLE = st.integers(1, int(MAX_VALUE)).map(float)
VALUES = st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, WHOLE) | {KEYS[0]: RATE})
BOOK = st.dictionaries(ENTITY, VALUES.filter(bool), max_size=6)


@given(BOOK)
def test_overrides_are_read_as_they_were_written(book: dict[QuotaEntity, dict[str, float]]) -> None:
    """Every set of overrides makes the round trip, and is written the same way twice."""
    data = encode(book)
    assert decode(data) == book
    assert encode(dict(reversed(list(book.items())))) == data


def test_the_file_can_be_read_by_people_and_may_be_empty() -> None:
    """Its lines are those of the configuration's `quotas`."""
    book = {
        QuotaEntity("bob", None): {"request_rate": 0.5},
        QuotaEntity(DEFAULT_NAME, "report"): {
            "producer_byte_rate": 1048576.0,
            "request_rate": 20.0,
        },
    }
    said = json.loads(encode(book))
    assert said == {
        "version": 1,
        "overrides": [
            {
                "user": DEFAULT_NAME,
                "client_id": "report",
                "request_rate": 20,
                "producer_byte_rate": 1048576,
            },
            {"user": "bob", "request_rate": 0.5},
        ],
    }

    assert decode(encode({})) == {}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "found a list, expected a mapping with version, overrides"),
        (b"null", "found nothing, expected a mapping"),
        (b'{"overrides": []}', "version: found nothing"),
        (b'{"version": 1}', "overrides: found nothing"),
        (b'{"version": 2, "overrides": {}}', "version 2, expected 1"),
        (b'{"version": true, "overrides": []}', "version: found true"),
        (b'{"version": 1, "overrides": [], "more": 1}', "more: found an unknown key"),
    ],
)
def test_a_file_of_another_kind_is_refused(data: bytes, words: str) -> None:
    """The message names the setting and the fault of the content."""
    with pytest.raises(PolicyConfigError, match=words) as caught:
        decode(data)
    assert caught.value.path == "state_file"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"user": "a"}, r"overrides\[0\]: found no limit"),
        ({"request_rate": 1}, "found no entity"),
        ({"user": "", "request_rate": 1}, "user: found '', .* must not be empty"),
        ({"client_id": "x" * 5000, "request_rate": 1}, "client_id: .*longer"),
        ({"user": 7, "request_rate": 1}, "user: found 7, expected a text"),
        ({"user": "a", "request_rate": 0}, "request_rate: found 0.0, .*greater than 0"),
        ({"user": "a", "request_rate": "9"}, "request_rate: found '9'"),
        ({"user": "a", "request_rate": True}, "request_rate: found true"),
        ({"user": "a", "request_rate": 10**400}, "request_rate|JSON"),
        ({"user": "a", "producer_byte_rate": 1.5}, "producer_byte_rate: found 1.5, .*whole"),
        ({"user": "a", "reqest_rate": 1}, "did you mean request_rate"),
    ],
)
def test_an_impossible_line_is_refused(line: dict[str, object], words: str) -> None:
    """The message names the line and the key."""
    data = json.dumps({"version": 1, "overrides": [line]}).encode()
    with pytest.raises(PolicyConfigError, match=words):
        decode(data)


def test_an_entity_has_one_line() -> None:
    """Two lines of one entity could contradict each other."""
    line = {"user": "a", "request_rate": 1}
    data = json.dumps({"version": 1, "overrides": [line, line]}).encode()
    with pytest.raises(PolicyConfigError, match=r"overrides\[1\]: found an entity"):
        decode(data)


@given(BOOK, st.lists(st.builds(Change, ENTITY, st.sampled_from(KEYS), st.none() | WHOLE)))
def test_changes_are_applied_in_order(
    book: dict[QuotaEntity, dict[str, float]], changes: list[Change]
) -> None:
    """The last value of a key holds, no empty entity stays, and the given overrides are not changed."""
    before = encode(book)
    after = apply_changes(book, changes)
    assert encode(book) == before
    last = {(entity, key): value for entity, key, value in changes}
    for (entity, key), value in last.items():
        assert after.get(entity, {}).get(key) == value
    for entity, values in after.items():
        assert values
        for key, value in values.items():
            assert last.get((entity, key), book.get(entity, {}).get(key)) == value
