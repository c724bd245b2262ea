"""How record files are called."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from proxy.telemetry.usage_log.names import (
    FileName,
    day_of,
    file_safe,
    is_hidden,
    new_boot,
    parse,
)

NAME = FileName("entity", "pod-7", "0195a3c2b1000042", 3)


def test_a_growing_file_is_hidden_and_a_closed_one_is_not() -> None:
    """Spark reads every name that does not begin with a dot or an underscore."""
    assert NAME.hidden == ".entity-pod-7-0195a3c2b1000042-000003.jsonl.open"
    assert NAME.closed == "entity-pod-7-0195a3c2b1000042-000003.jsonl"
    assert is_hidden(Path("entity") / NAME.hidden)
    assert not is_hidden(Path("entity") / NAME.closed)


@given(
    family=st.sampled_from(["entity", "api", "instance", "topic", "capture"]),
    instance=st.text(min_size=1),
    now_ms=st.integers(0, 2**43),
    place=st.integers(1, 10**7),
)
def test_a_name_says_whose_it_is(family: str, instance: str, now_ms: int, place: int) -> None:
    """Whatever the instance is called, both names are read back as what they were made of, and name no folder."""
    name = FileName(family, file_safe(instance), new_boot(now_ms), place)

    assert parse(name.hidden) == parse(name.closed) == name
    assert "/" not in name.closed


def test_other_files_are_nobodys() -> None:
    """A file that is not called like one of ours is not taken for one."""
    strangers = ["entity.jsonl", "entity-a-b-1.jsonl", f"{NAME.closed}.gz", ".entity", "_SUCCESS"]

    assert [parse(stranger) for stranger in strangers] == [None] * len(strangers)


def test_two_starts_in_one_millisecond_differ() -> None:
    """The name of a start has a part that is drawn."""
    assert len({new_boot(1_000) for _ in range(20)}) > 10


def test_a_later_start_sorts_behind_an_earlier_one() -> None:
    """Names of files in one folder stand in the order of time."""
    assert new_boot(1_763_000_000_000) < new_boot(1_763_000_000_001)


def test_days_are_those_of_utc() -> None:
    """The folder is the day of the row."""
    assert day_of(0) == "dt=1970-01-01"
    assert day_of(86_399_999) == "dt=1970-01-01"
    assert day_of(1_763_683_200_000) == "dt=2025-11-21"
