"""Reading YAML with its line numbers."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from yaml.composer import Composer

from policies.yaml_text import _Loader, read_yaml


def problems_of(text: str | bytes) -> list[str]:
    return [str(each) for each in read_yaml(text, "f")[2]]


def test_every_key_path_has_its_line() -> None:
    """Keys, items and their children have the line on which they begin."""
    data, origins, problems = read_yaml("a:\n  b: 1\nc:\n  - d: 2\n    e: 3\n  - 4\n", "f")
    assert problems == []
    assert data == {"a": {"b": 1}, "c": [{"d": 2, "e": 3}, 4]}
    assert origins == {
        "": "f",
        "a": "f:1",
        "a.b": "f:2",
        "c": "f:3",
        "c[0]": "f:4",
        "c[0].d": "f:4",
        "c[0].e": "f:5",
        "c[1]": "f:6",
    }


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n"])
def test_an_empty_file_is_valid(text: str) -> None:
    """All settings may come from other sources."""
    data, _, problems = read_yaml(text, "f")
    assert not data
    assert problems == []


NOT_YAML = (
    "a: [",
    "a: b: c",
    "\ta: 1",
    b"a: \xff",
    b"\x00",
    "a: !!python/object/apply:os.getcwd []\n",
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "a: 1\nb: 2\na: 3\n",
            "a (f:3): found a duplicate key, expected each key once (it is also on line 1)",
        ),
        (
            "a: &x [*x]\n",
            "a[0] (f:1): found an alias that contains itself, expected a value without itself inside",
        ),
        ("? [k]\n: 1\n", "(f:1): found a key that is not text, expected a plain key"),
        *((text, "this is not YAML: ") for text in NOT_YAML),
        ("a: 1\nb: c: d\n", "(f:2:5): this is not YAML: "),
        ("a: 2026-13-45\n", "(f): a value that cannot be read: "),
        (f"a: {'1' * 5000}\n", "(f): a value that cannot be read: "),
    ],
    ids=lambda each: repr(each)[:30],
)
def test_what_cannot_be_read_is_one_problem_with_its_place(text: str | bytes, words: str) -> None:
    """Ambiguous or malformed YAML, a wrong encoding, tags that would create objects, and no date and no number."""
    (found,) = problems_of(text)
    assert words in found


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(deadline=None)  # a busy machine must not fail the test
@given(st.dictionaries(st.text(max_size=8), values, max_size=3))
def test_written_yaml_is_read_back(data: dict[str, object]) -> None:
    """This holds for any plain data, without a problem."""
    assert read_yaml(yaml.safe_dump(data), "f")[::2] == (data, [])


def test_a_mistake_is_shown_with_its_line_and_a_caret() -> None:
    """The caret stands below the column; a tab, which looks like spaces, is named; a long line is cut."""
    _, _, (problem,) = read_yaml("a: {b: 1\nc: 2\n", "s.yaml")
    assert str(problem).splitlines()[1:] == ["    2 | c: 2", "      |  ^"]

    _, _, (problem,) = read_yaml("a:\n\tb: 1\n", "s.yaml")
    assert "a tab cannot indent YAML: use spaces" in str(problem)
    assert "2 | \u2192b: 1" in str(problem)

    _, _, (problem,) = read_yaml("a: " + "x" * 5000 + "\n  : }\n", "s.yaml")
    assert max(map(len, str(problem).splitlines())) < 200


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 5000 + "]" * 5000,
        "a: " + "[" * 300 + "]" * 300,
        "\n".join(
            [
                "a0: &a0 [x]",
                *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)),
            ]
        ),
    ],
    ids=["brackets", "levels", "aliases"],
)
def test_aliases_that_expand_without_bound_are_refused(text: str) -> None:
    """They are refused once and in few steps."""
    data, _, problems = read_yaml(text, "s.yaml")
    assert data is None or data == {}
    (problem,) = problems
    assert "expected at most" in str(problem)


def test_no_call_makes_all_nodes_of_a_file_at_once() -> None:
    """Another thread, the loop's, has its turns while a large file is read."""
    assert _Loader.get_single_node is Composer.get_single_node
