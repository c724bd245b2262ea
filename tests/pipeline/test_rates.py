"""The rates of windows, as the quota policy measures them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rates import WindowIndex
from policies.quota.rate import SampledRate


def rates_of(rows: list[tuple[int, int, int]]) -> dict[tuple[int, int], float]:
    entity, second, amount = (np.array(column) for column in zip(*rows, strict=True))
    found = WindowIndex(entity, second).rates(amount)
    keys = zip(found.entity.tolist(), found.second.tolist(), strict=True)
    return dict(zip(keys, found.rate.tolist(), strict=True))


@given(st.dictionaries(st.integers(0, 60), st.integers(1, 9), min_size=1))
def test_a_rate_is_the_policys_own_in_the_middle_of_the_second(sent: dict[int, int]) -> None:
    """Kafka's rule, asked half a second after the requests of a second, measures the same."""
    policy = SampledRate()
    found = rates_of([(0, second, amount) for second, amount in sent.items()])
    for second in sorted(sent):
        for _ in range(sent[second]):
            policy.record(1, second * 1000)
        assert abs(policy.measure(second * 1000 + 500) - found[0, second]) < 1e-9


def test_rows_of_one_second_are_added_and_entities_kept_apart() -> None:
    """A window has the seconds of its own entity only."""
    found = rates_of([(0, 1, 5), (0, 2, 3), (0, 2, 1), (1, 2, 7), (0, 13, 2)])
    sums = {(0, 1): 5, (0, 2): 9, (1, 2): 7, (0, 13): 2}
    assert found == {key: amount / 10.5 for key, amount in sums.items()}
