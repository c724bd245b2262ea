"""Contest: arms take turns, the quota holds in one of them only, and it is gone in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from proxy.demo.comparison import Arm, Progress
from proxy.demo.contest import BURST, LIMIT_PER_S, Contest, Script, script_of
from proxy.demo.cpu import Used
from proxy.demo.figures import Latencies
from proxy.demo.messages import Tick
from proxy.demo.process import StageError

if TYPE_CHECKING:
    from trio.testing import MockClock

    from proxy.demo.messages import Cue
    from proxy.demo.process import Child

POLITE_MS = {"alone": 7.0, "without": 30.0, "with": 7.1}
NOISY_PER_S = {"alone": 0.0, "without": 20_000.0, "with": LIMIT_PER_S}


class World:
    """Two clients and a quota, as a clock and two switches."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self.goes = False
        self.limit: float | None = None
        self.outstanding = 0
        """Left over from the flood; every mark finds one less."""
        self.answered = 0.0
        self.answered_at_s = 0.0

    @property
    def state(self) -> str:
        """Which arm this is."""
        if not self.goes:
            return "alone"
        return "without" if self.limit is None else "with"

    async def set_limit(self, requests_per_s: float | None) -> None:
        """Stand in for Sluice."""
        self.count()
        self.limit = requests_per_s

    def count(self) -> None:
        """Let the noisy one have done what it could since it was last looked at."""
        now_s = self.clock.current_time()
        self.answered += NOISY_PER_S[self.state] * (now_s - self.answered_at_s)
        self.answered_at_s = now_s


class Actor:
    """A client of that world."""

    def __init__(self, world: World, *, silent: bool = False) -> None:
        self._world = world
        self._silent = silent

    async def cue(self, cue: Cue) -> None:
        """Go or rest."""
        self._world.count()
        self._world.goes = cue == "go"
        self._world.outstanding = 3 if cue == "rest" else 0

    async def ask(self, cue: Cue, kind: type[Tick], patience_s: float) -> Tick:
        """Tell how it goes."""
        assert (cue, kind) == ("mark", Tick)
        assert patience_s > 0
        world = self._world
        world.count()
        latencies = Latencies()
        if not self._silent:
            latencies.add(POLITE_MS[world.state] if not world.outstanding else 1000.0)
        world.outstanding = max(0, world.outstanding - 1)
        at_ns = int(world.answered_at_s * 1e9)
        return Tick(
            acked=int(world.answered_at_s * 200),
            latency=latencies.take(),
            at_ns=at_ns,
            answered=int(world.answered),
            answered_at_ns=at_ns,
            outstanding=world.outstanding,
        )


def contest(world: World, *, silent: bool = False) -> Contest:
    """Return a contest in that world."""
    polite, noisy = Actor(world, silent=silent), Actor(world)
    return Contest(cast("Child", polite), cast("Child", noisy), world.set_limit)


async def test_each_arm_is_measured_by_itself(autojump_clock: MockClock) -> None:
    """What the polite one's latency and the noisy one's rate were in an arm is what is told of it; what
    is left of a flood is waited for.
    """
    world = World(autojump_clock)
    told: list[Progress] = []

    comparison = await contest(world).play(Script(job_s=0, rounds=3), told.append)

    for arm, state in zip(Arm, ("alone", "without", "with"), strict=True):
        typical = comparison.maybe_typical(arm)
        assert typical is not None
        assert typical.p50_ms == pytest.approx(POLITE_MS[state], rel=0.011)
        assert typical.noisy_per_s == pytest.approx(NOISY_PER_S[state], abs=1)
        assert typical.records_per_s == pytest.approx(200)
        assert len(comparison.samples(arm)) == 3
    assert [(each.turn, each.arm) for each in told] == [(n, arm) for n in (1, 2, 3) for arm in Arm]
    assert comparison.limit_per_s == LIMIT_PER_S


async def test_the_burst_of_a_quota_is_used_up_before_it_is_measured(
    autojump_clock: MockClock,
) -> None:
    """However long the noisy one needs for it: the sample begins when so many replies have been counted."""
    world = World(autojump_clock)
    counted: list[float] = []
    polite, noisy = Actor(world), Actor(world)

    async def limit(requests_per_s: float | None) -> None:
        await world.set_limit(requests_per_s)
        counted.append(world.answered)

    def used() -> None:
        counted.append(world.answered)

    made = Contest(cast("Child", polite), cast("Child", noisy), limit, used)
    await made.play(Script(job_s=0, rounds=1, settle_s=0.1))

    with_quota = counted[-4:]  # set; before and after its sample; taken away
    assert with_quota[1] - with_quota[0] >= BURST


async def test_everything_is_as_before_in_the_end(autojump_clock: MockClock) -> None:
    """The noisy one rests and has no quota, so that what was held back is answered."""
    world = World(autojump_clock)

    await contest(world).play(Script(job_s=0, rounds=1))

    assert (world.goes, world.limit) == (False, None)


async def test_what_others_use_is_asked_for_each_sample(autojump_clock: MockClock) -> None:
    """The share of other programs is that of the measured times, not of the settling times between."""
    world = World(autojump_clock)
    looks = iter(range(100))

    def used() -> Used:
        look = next(looks)  # even ones begin a sample, odd ones end it
        return Used(there_was=100 * look, by_all=40 * look, by_us=10 * look)

    polite, noisy = Actor(world), Actor(world)
    made = Contest(cast("Child", polite), cast("Child", noisy), world.set_limit, used)
    comparison = await made.play(Script(job_s=0, rounds=2))

    assert comparison.others() == pytest.approx(0.3)
    assert next(looks) == 2 * 2 * len(Arm)


async def test_a_silent_polite_one_ends_the_play(autojump_clock: MockClock) -> None:
    """Nothing is compared with nothing."""
    with pytest.raises(StageError, match="polite"):
        await contest(World(autojump_clock), silent=True).play(Script(job_s=0, rounds=1))


@pytest.mark.parametrize("seconds", [1, 10, 40, 120])
def test_a_script_takes_about_as_long_as_asked(seconds: float) -> None:
    """Both parts together take the time that was asked for, and at least one round is played."""
    script = script_of(seconds)

    assert script.rounds >= 1
    assert script.job_s <= 8
    one_round_s = script.contest_s / script.rounds
    assert abs(script.job_s + script.contest_s - seconds) < one_round_s
