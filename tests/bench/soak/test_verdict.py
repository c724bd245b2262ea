"""The verdict of the soak: a leak is found, noise and what is kept on purpose are none."""

import random

import pytest

from bench.soak.report import (
    FEW,
    FLAT,
    GROWS,
    UNKNOWN,
    growing_types,
    growth,
)
from proxy.telemetry.decisions import MAX_DECISIONS, MAX_OBSERVED

TIMES_S = [10.0 * n for n in range(181)]
MB = 1e6


def series(per_hour: float = 0.0, noise: float = 0.0, seed: int = 1) -> list[float]:
    """Return half an hour of a figure of 50 MB with this slope and noise."""
    chance = random.Random(seed)
    return [50 * MB + per_hour * at_s / 3600 + chance.gauss(0, noise) for at_s in TIMES_S]


def test_a_leak_is_found_behind_noise() -> None:
    """8 MB an hour with a noise of half a MB: the whole interval is above zero."""
    found = growth(TIMES_S, series(8 * MB, 0.5 * MB))

    assert found.word == GROWS
    assert abs(found.per_hour - 8 * MB) < found.bound


def test_a_flat_series_is_flat() -> None:
    """Noise alone is no leak."""
    words = {growth(TIMES_S, series(0, 0.5 * MB, seed)).word for seed in range(20)}

    assert words == {FLAT}


def test_a_small_growth_is_none_although_it_is_certain() -> None:
    """Less than the share that is allowed: 1 MB an hour of 50 MB, in half an hour."""
    assert growth(TIMES_S, series(1 * MB)).word == FLAT


def test_too_much_noise_tells_nothing() -> None:
    """Neither a leak nor its absence is shown."""
    assert growth(TIMES_S, series(0, 20 * MB, 3)).word == UNKNOWN


def test_a_short_run_has_no_slope() -> None:
    """The parts of the time need two values each."""
    with pytest.raises(ValueError, match="12 samples are too few"):
        growth(TIMES_S[:12], series()[:12])


def test_a_type_that_grows_is_named() -> None:
    """With both counts; some objects come and go, and a ring has its own bound."""
    name, most = "proxy.telemetry.decisions.PolicyDecision", MAX_DECISIONS + MAX_OBSERVED
    before = {"Session": 3, "tuple": 5000, name: 120}
    after = {"Session": 103, "tuple": 5000 + FEW, name: most, "Timer": FEW + 1, "Task": FEW}

    assert growing_types(before, after) == {"Session": (3, 103), "Timer": (0, FEW + 1)}
    assert growing_types({}, {name: most + 1}) == {name: (0, most + 1)}
