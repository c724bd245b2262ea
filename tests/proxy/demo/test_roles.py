"""Roles: each client sends at its own rate, and stops at its depth."""

import math

from proxy.demo.roles import NOISY, POLITE, ROLES, Pace, Role


def sent(role: Role, seconds: float, outstanding: int = 0) -> int:
    """Return how many records a role sends in so many seconds, looking a hundred times a second."""
    pace = Pace(role)
    return sum(pace.due(tick / 100, outstanding) for tick in range(round(seconds * 100) + 1))


def test_a_rate_is_kept() -> None:
    """The polite client sends 200 records a second."""
    assert abs(sent(ROLES[POLITE], 3) - 600) <= 1


def test_a_busy_time_is_followed_by_a_quiet_one() -> None:
    """Alice sends 60 a second for four seconds, then 8 a second for six, and begins again."""
    assert abs(sent(ROLES["alice"], 20) - 2 * (4 * 60 + 6 * 8)) <= 2


def test_a_client_that_waits_sends_later() -> None:
    """What it could not send for its depth is due when replies come; the polite client forgets most of it."""
    for name, due in (("checkout", 8), (POLITE, 20)):
        pace = Pace(ROLES[name])
        pace.due(0, 0)

        assert pace.due(10, 2000) == 0
        assert pace.due(10, 0) == due


def test_a_flood_keeps_its_depth() -> None:
    """The noisy client has so many records unanswered at each moment; it catches up no more than that."""
    pace = Pace(ROLES[NOISY])
    pace.due(0, 0)

    depth = ROLES[NOISY].depth
    assert [pace.due(1, 0), pace.due(2, depth - 10), pace.due(3, depth)] == [depth, 10, 0]


def test_only_the_polite_client_reads_back() -> None:
    """The mock brokers keep few of the noisy client's records."""
    assert [name for name, role in ROLES.items() if role.is_read_back] == [POLITE]
    assert all(math.isinf(role.catches_up) for role in ROLES.values() if role.quota)
