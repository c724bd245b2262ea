"""The quota file is read as it was written, and any other content is refused with a reason."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.quota import quota_file
from policies.quota.entity import DEFAULT_NAME, KEYS, MAX_VALUE
from policies.quota.quota_file import (
    MAX_QUOTAS,
    QuotaFile,
    QuotaFileLine,
    parse_quota_file,
    render_quota_file,
)
from policies.validation import SettingsError
from policies.yaml_text import MAX_BYTES

FILE = """
version: 1
generated_at: 2026-11-23T08:00:00Z
source: {tables: "file:///data/tables", percentile: 99.9}
quotas:
- user: alice
  request_rate: 110
  evidence: {request_rate: {p50: 12, max: 140.5}}
- {user: <default>, client_id: report, producer_byte_rate: 1048576}
"""


def problems_of(text: str | bytes) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse_quota_file(text, "q.yaml")
    return [str(each) for each in caught.value.problems]


def test_a_file_has_lines_as_the_configuration_has_and_their_evidence() -> None:
    """The evidence and the source are kept as they are."""
    file = parse_quota_file(FILE)
    assert file == QuotaFile(
        generated_at=datetime(2026, 11, 23, 8, tzinfo=UTC),
        source={"tables": "file:///data/tables", "percentile": 99.9},
        quotas=(
            QuotaFileLine(
                user="alice",
                request_rate=110,
                evidence={"request_rate": {"p50": 12, "max": 140.5}},
            ),
            QuotaFileLine(user=DEFAULT_NAME, client_id="report", producer_byte_rate=1048576),
        ),
    )


def test_a_file_may_be_json_or_written_by_hand() -> None:
    """JSON that is not YAML is read too: tabs between values, and a character in two escapes."""
    text = '{\n\t"version": 1,\n\t"quotas": [{"user": "\\ud83d\\ude00", "request_rate": 1}]}'
    (line,) = parse_quota_file(text).quotas
    assert (line.user, line.request_rate) == ("\U0001f600", 1)
    assert parse_quota_file("{version: 1, quotas: []}").quotas == ()

    assert parse_quota_file("version: 1\nquotas: []\n") == QuotaFile(quotas=())


def test_a_written_file_is_for_people() -> None:
    """Whole numbers are written as such, a line has no more keys than it needs, and one mapping is on one line."""
    file = parse_quota_file(FILE)
    shared = {"windows": 86400}
    twice = [QuotaFileLine(client_id=each, request_rate=0.5, evidence=shared) for each in "ab"]
    assert render_quota_file(QuotaFile(quotas=(*file.quotas, *twice))).splitlines()[1:] == [
        "version: 1",
        "quotas:",
        "- user: alice",
        "  request_rate: 110",
        "  evidence:",
        "    request_rate: {p50: 12, max: 140.5}",
        "- {user: <default>, client_id: report, producer_byte_rate: 1048576}",
        "- client_id: a",
        "  request_rate: 0.5",
        "  evidence: {windows: 86400}",
        "- client_id: b",
        "  request_rate: 0.5",
        "  evidence: {windows: 86400}",
    ]
    assert "\ngenerated_at: '2026-11-23T08:00:00Z'\n" in render_quota_file(file)


NAME = st.text(min_size=1, max_size=20) | st.sampled_from(
    [
        DEFAULT_NAME,
        "null",
        "1",
        "2026-01-01",
        "a: b",
        "\U0001f600",
        "\x85\u2028\x00",
        "\u202e\u200b",
    ]
)
WHOLE = st.integers(1, int(MAX_VALUE)).map(float)
VALUES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(KEYS, WHOLE) | {KEYS[0]: st.floats(0.001, MAX_VALUE)}
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
LINES = st.lists(
    st.builds(
        lambda user, client_id, values, evidence: QuotaFileLine(
            user=user, client_id=client_id, evidence=evidence, **values
        ),
        NAME,
        st.none() | NAME,
        VALUES.filter(bool),
        st.dictionaries(st.text(max_size=9), PLAIN, max_size=3),
    ),
    unique_by=lambda line: line.entity,
    max_size=4,
)


@settings(deadline=None)  # a busy machine must not fail the test
@given(LINES, st.none() | st.datetimes(timezones=st.just(UTC)), PLAIN)
def test_a_file_is_read_as_it_was_written(
    lines: list[QuotaFileLine], when: datetime | None, detail: object
) -> None:
    """Any names, limits and evidence make the round trip, as text that a terminal can show."""
    file = QuotaFile(generated_at=when, source={"detail": detail}, quotas=tuple(lines))
    text = render_quota_file(file)
    assert parse_quota_file(text) == file
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "version (q.yaml): found nothing, expected 1"),
        ("[]", "(q.yaml): found a list, expected a mapping with version, generated_at, source, quotas"),
        ("version: 1", "quotas (q.yaml): found nothing, expected a list"),
        ("quotas: []", "version (q.yaml): found nothing, expected 1"),
        (
            "version: 2\nquotas: {}",
            "version (q.yaml:1): found 2, expected 1, the latest that this Sluice can read",
        ),
        ("version: 0\nquotas: []", "version (q.yaml:1): found 0, expected 1"),
        ("version: true\nquotas: []", "version (q.yaml:1): found true, expected 1"),
        (
            "version: 1\nquotas:\n- {usr: a, request_rate: 1}",
            ("quotas[0].usr (q.yaml:3): found an unknown key, expected a key: user, client_id, "
            "request_rate, producer_byte_rate, consumer_byte_rate, evidence; did you mean user?"),
        ),
        (
            "version: 1\nquotas:\n- user: a\n  request_rate: fast",
            "quotas[0].request_rate (q.yaml:4): found 'fast', expected a number above 0, per second",
        ),
        (
            "version: 1\nquotas:\n- user: a\n  request_rate: -1",
            "quotas[0].request_rate (q.yaml:4): found -1.0, expected a limit: it must be greater than 0",
        ),
        (
            "version: 1\nquotas:\n- {user: a, request_rate: 1}\n- {user: a, request_rate: 2}",
            ("quotas[1].request_rate (q.yaml:4): found a second limit, expected one request_rate per "
            "entity; quotas[0] sets it already"),
        ),
        (
            "version: 1\ngenerated_at: today\nquotas: []",
            "generated_at (q.yaml:2): found 'today', expected a time such as 2026-11-23T08:00:00Z",
        ),
        (
            '{"version": 1, "quotas": [], "quotas": []}',
            "quotas (q.yaml:1): found a duplicate key, expected each key once (it is also on line 1)",
        ),
        ('{"version": 1, "quotas": [{"user": "a"}]}', "quotas[0] (q.yaml): found no limit, expected"),
        (b"\xff", "(q.yaml): this is not YAML"),
        ("[" * 5000, "more levels than can be read"),
        ('{"version":' * 50_000, "more levels than can be read"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_and_what_is_expected(text: str | bytes, words: str) -> None:
    """In YAML with its line; an unknown key with the valid key that it resembles."""
    said = "\n".join(problems_of(text))
    assert words in said


def test_every_mistake_is_reported_up_to_the_bound_of_a_file() -> None:
    """One mistake hides no other; a file of too many bytes or lines is refused before its lines are looked at."""
    text = "version: 1\nquotas: [{user: '', request_rate: 1}, {request_rate: 1}]\nmore: 1"
    assert len(problems_of(text)) == 3

    text = json.dumps({"version": 1, "quotas": [{"user": "a", "request_rate": 10**400}]})
    for each in (text, f"# YAML\n{text}"):
        (said,) = problems_of(each)
        assert said.startswith("quotas[0].request_rate")

    (said,) = problems_of(b"#" * (MAX_BYTES + 1))
    assert said.endswith(f"expected at most {MAX_BYTES} bytes")
    lines = [{}] * (MAX_QUOTAS + 1)
    (said,) = problems_of(json.dumps({"version": 1, "quotas": lines}))
    assert said == f"quotas (q.yaml): found {MAX_QUOTAS + 1} entries, expected at most {MAX_QUOTAS}"


def test_the_example_in_the_module_is_valid() -> None:
    """The file that the documentation shows can be read."""
    text = (quota_file.__doc__ or "").split("\n\n")[1]
    assert parse_quota_file("\n".join(line[4:] for line in text.splitlines())).quotas
