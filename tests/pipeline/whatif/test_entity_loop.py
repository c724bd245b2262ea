"""By how much clocks advance under the release schedule: solved without iterations, checked by bisection."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.whatif.entity_loop import Blocking
from pipeline.whatif.second import BatchFlow

CLIENTS = 40


@given(st.integers(0, 2**32 - 1))
def test_a_clock_advances_by_the_share_of_connections_that_are_not_blocked(seed: int) -> None:
    """For all kinds of clients: one connection or many, single requests or batches, something waits already or not."""
    dice = np.random.default_rng(seed)

    def one_of(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return dice.choice(values, CLIENTS)

    batch = one_of(1, 1.3, 20)
    left = one_of(0, 0.3, 1)
    for0 = np.clip(1 / batch - (1 - left), 0, left)
    for1 = np.minimum(1 / batch, 1 - left)
    flow = BatchFlow(one_of(0, 5, 1e4) * batch, for0, one_of(0, 5, 1e4) * batch, for1, left)
    blocking = Blocking(one_of(0.5, 1, 1e5), batch, one_of(1, 1.5, 50))
    base = one_of(-1e6, -3, 0, 0.4, 3, 1e6) * dice.random(CLIENTS)

    low, high = np.zeros(CLIENTS), np.ones(CLIENTS)
    for _ in range(60):
        middle = (low + high) / 2
        waiting = np.maximum(base + flow.sent(middle), 0)
        above = middle - 1 + blocking.share(waiting) > 0
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    np.testing.assert_allclose(blocking.clock(base, flow), low, atol=1e-9)
