"""The factors of a sweep. Its curve is tested with the job."""

import pytest

from pipeline.whatif.sweep import factors_of


def test_factors_are_evenly_spaced_on_a_logarithmic_scale() -> None:
    """Both ends are among them; seven unless another number is given."""
    assert factors_of("0.5..2:3") == [0.5, 1, 2]
    assert factors_of("0.25..4:5") == [0.25, 0.5, 1, 2, 4]
    assert len(factors_of("0.5..2")) == 7
    assert factors_of("0.5..2")[3] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2", "expected LOW..HIGH"),
        ("2..1", "expected 0 < LOW < HIGH"),
        ("1..inf", "expected 0 < LOW < HIGH"),
        ("nan..2", "expected 0 < LOW < HIGH"),
        ("1..2:1", "expected 2 to 100"),
        ("1..2:101", "expected 2 to 100"),
    ],
)
def test_a_wrong_sweep_is_refused_in_words(text: str, words: str) -> None:
    """The message says what was found and what is expected."""
    with pytest.raises(ValueError, match=words):
        factors_of(text)
