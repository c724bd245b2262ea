"""A pattern of topics never selects one that begins with `__`, and all others as before."""

import re
import warnings
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import messages
from tests.support.messages.kafka_messages import api_of
from wire.apis import ApiKey
from wire.errors import WireError
from wire.topic_patterns import MAX_CHARS, pattern_at, with_pattern, without_internal

NAMES = ["".join(signs) for size in range(1, 6) for signs in product("_a-", repeat=size)]
HEARTBEAT = api_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


def chosen(pattern: str) -> set[str]:
    """Return what a pattern selects."""
    compiled = re.compile(pattern)
    return {name for name in NAMES if compiled.fullmatch(name)}


def check(pattern: str) -> bool:
    """Compare what is selected before and after; return whether the pattern was understood."""
    shown = without_internal(pattern)
    if shown is not None:
        assert chosen(shown) == {each for each in chosen(pattern) if not each.startswith("__")}
    return shown is not None


@pytest.mark.parametrize(
    "pattern",
    [
        *(".*", "^.*", "^.*$", ".+", ".*?", "^.+?$", ".*-a", "^.*a$", ".+-_.*", ".*(?:a|-)_*"),
        *("a.*", "^a", "_a.*", "^_a|-.*", "a|.*", "(a|-).*", "^(?:(a)|-)+_*", "[a-z]+.*", "[a-]"),
        *(r"\-.*", r"a\|_", "a[|]_", "a[^_|(]*", "(^.*)", "(^a)|(^_-.*)|(?:^.*$)"),
    ],
)
def test_usual_patterns_keep_all_other_topics(pattern: str) -> None:
    """Those that cannot select an internal topic stay as they are."""
    assert check(pattern)
    if not any(each.startswith("__") for each in chosen(pattern)):
        assert without_internal(pattern) == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        *("__.*", "_.*", "_+a", "__consumer_offsets", "a*__a", "a?_.*", "a{0}__a", "(a)?__a"),
        *(
            "a|__a",
            "(a|__a)",
            "(a|_)_a",
            "_(_a)",
            "_(a|_a)",
            "[A-z].*",
            r"[\w].*",
            r"\w+",
            "[^a].*",
        ),
        *(
            r"\x5f_a",
            r"\Qa|\E__a",
            "(?i)_.*",
            "(?P<n>_)_",
            ".*.*",
            ".*_a",
            ".*(a|_)",
            "(.*)a",
            "(.*)*",
            "(?i:.*)",
            "",
        ),
        *("a[^](]|__a[^])]", "a[](]|__a[])]", "a[[:alpha:]|]|__a", "(" * 30 + "a" + ")" * 30),
        "a" * (MAX_CHARS + 1),
    ],
)
def test_a_pattern_that_may_select_one_is_not_taken_for_safe(pattern: str) -> None:
    """Nor one of which it is not certain."""
    assert without_internal(pattern) is None


PIECES = [*"_a-.*+?|()[]^$\\{}:1,", ".*", ".+", "(?:", "[^", "__", "[^]", r"\Q", r"\E"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_safe_or_refused(pattern: str) -> None:
    """Compared with Python's own expressions, where they accept the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            re.compile(pattern)
        except re.error:
            without_internal(pattern)
        else:
            check(pattern)


def heartbeat(pattern: str | None, names: list[str] | None) -> bytes:
    """A body with all fields before the pattern, and after it."""
    fields = {
        "group_id": "g",
        "member_id": "m" * 200,
        "rack_id": "r",
        "subscribed_topic_names": names,
        "subscribed_topic_regex": pattern,
        "server_assignor": "uniform",
    }
    return messages.encode(messages.make_request(HEARTBEAT, fields))


@pytest.mark.parametrize("names", [None, [], ["one", "two"]])
def test_the_pattern_of_a_request_is_read_and_replaced(names: list[str] | None) -> None:
    """All other bytes stay."""
    body = heartbeat("é.*", names)
    assert pattern_at(body)[0] == "é.*"
    assert pattern_at(heartbeat(None, names))[0] == ""
    assert with_pattern(body, "a" * 300) == heartbeat("a" * 300, names)
    start, stop = pattern_at(body)[1:]
    for end in range(stop):
        with pytest.raises(WireError):
            pattern_at(body[:end])
    with pytest.raises(WireError, match="UTF-8"):
        pattern_at(body[: start + 1] + b"\xff" + body[start + 2 :])
