"""Goals, and the rates that candidates held."""

from bench.purgatory.figures import COMPILED, KAFKA, SOURCE_RATE, WHEEL, Found, Run, goals


def run(
    candidate=WHEEL,
    load="low",
    rate=SOURCE_RATE,
    held=1.0,
    cores=0.4,
    cpu_us=4.0,
    requests=1_000_000,
):
    """A run whose rate was held by this much."""
    return Run(candidate, load, rate, requests, rate, rate * held, cores, cpu_us, 2e7)


def test_a_rate_is_held_within_one_percent():
    """Kafka's own benchmark has the same tolerance."""
    assert [run(held=held).held for held in (1.0, 0.99, 0.989)] == [True, True, False]


def test_the_highest_rate_held_has_all_below_it_held():
    """A rate held by chance above one that was not held does not count."""
    found = Found([run(rate=rate, held=held) for rate, held in ((3, 1.0), (1, 1.0), (2, 0.5))])
    assert found.max_held(WHEEL, "low") == 1
    assert found.max_held(WHEEL, "high") is None


def test_a_goal_without_a_run_is_not_met():
    """It counts as not measured."""
    assert {goal.met for goal in goals(Found())} == {None}


def test_goals_are_met_and_missed_by_the_figures():
    """Rates must be reached; cores and CPU must not be exceeded."""
    good = [
        run(WHEEL, load, rate, cores=0.5, cpu_us=4.8)
        for load in ("low", "high")
        for rate in (SOURCE_RATE, 200_000)
    ]
    good += [run(KAFKA, load, cpu_us=4.0) for load in ("low", "high")]
    good += [run(COMPILED, load, cpu_us=2.0) for load in ("low", "high")]
    assert {goal.met for goal in goals(Found(good))} == {True}
    bad = [
        run(WHEEL, load, rate, held=0.98, cores=0.51, cpu_us=4.81)
        for load in ("low", "high")
        for rate in (SOURCE_RATE, 200_000)
    ]
    bad += [run(KAFKA, load, cpu_us=4.0) for load in ("low", "high")]
    bad += [run(COMPILED, load, cpu_us=2.01) for load in ("low", "high")]
    assert {goal.met for goal in goals(Found(bad))} == {False}
