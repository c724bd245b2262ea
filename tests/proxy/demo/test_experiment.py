"""Experiment: conditions alternate, the quota holds in one of them only, and is gone at the end."""

from typing import cast

import pytest
from trio.testing import MockClock

from proxy.demo.experiment import (
    BURST,
    LIMIT_PER_S,
    Condition,
    CpuTicks,
    Experiment,
    Progress,
    Schedule,
    schedule_of,
)
from proxy.demo.processes import ChildProcess, ClientStatus, Command, DemoError

SECOND_NS = 1_000_000_000
POLITE_MS = {Condition.ALONE: 7.0, Condition.NO_QUOTA: 30.0, Condition.QUOTA: 7.1}
NOISY_PER_S = {Condition.ALONE: 0.0, Condition.NO_QUOTA: 20_000.0, Condition.QUOTA: LIMIT_PER_S}


class World:
    """Two clients and a quota, as a clock and two switches."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self.runs = False
        self.limit: float | None = None
        self.outstanding = 0
        """Left over from the flood; every status finds one less."""
        self.answered = 0.0
        self.answered_at_s = 0.0

    @property
    def condition(self) -> Condition:
        if not self.runs:
            return Condition.ALONE
        return Condition.NO_QUOTA if self.limit is None else Condition.QUOTA

    async def set_quota(self, requests_per_s: float | None) -> None:
        self.count()
        self.limit = requests_per_s

    def count(self) -> None:
        """Count what the noisy producer could do since the previous call."""
        now_s = self.clock.current_time()
        self.answered += NOISY_PER_S[self.condition] * (now_s - self.answered_at_s)
        self.answered_at_s = now_s


class Actor:
    """A client of that world."""

    def __init__(self, world: World, *, silent: bool = False) -> None:
        self._world = world
        self._silent = silent

    async def command(self, command: Command) -> None:
        self._world.count()
        self._world.runs = command == "start"
        self._world.outstanding = 3 if command == "stop" else 0

    async def ask(
        self, command: Command, kind: type[ClientStatus], timeout_s: float
    ) -> ClientStatus:
        assert (command, kind) == ("report", ClientStatus)
        assert timeout_s > 0
        world = self._world
        world.count()
        latency_ms = 1000.0 if world.outstanding else POLITE_MS[world.condition]
        world.outstanding = max(0, world.outstanding - 1)
        at_ns = int(world.answered_at_s * 1e9)
        return ClientStatus(
            acked=int(world.answered_at_s * 200),
            latencies_us=[] if self._silent else [int(latency_ms * 1000)],
            at_ns=at_ns,
            answered=int(world.answered),
            answered_at_ns=at_ns,
            outstanding=world.outstanding,
        )


def experiment(world: World, *, silent: bool = False) -> Experiment:
    """Return an experiment in that world."""
    polite, noisy = Actor(world, silent=silent), Actor(world)
    return Experiment(cast("ChildProcess", polite), cast("ChildProcess", noisy), world.set_quota)


async def test_each_condition_is_measured_by_itself(autojump_clock: MockClock) -> None:
    """A condition's figures are the polite latency and the noisy rate during it; what a flood left over is awaited."""
    world = World(autojump_clock)
    told: list[Progress] = []

    comparison = await experiment(world).run(Schedule(job_s=0, rounds=3), told.append)

    for condition in Condition:
        medians = comparison.maybe_medians(condition)
        assert medians is not None
        assert medians.p50_ms == POLITE_MS[condition]
        assert medians.noisy_per_s == pytest.approx(NOISY_PER_S[condition], abs=1)
        assert medians.records_per_s == pytest.approx(200)
        assert len(comparison.samples[condition]) == 3
    assert [(each.turn, each.condition) for each in told] == [
        (turn, condition) for turn in (1, 2, 3) for condition in Condition
    ]
    assert comparison.limit_per_s == LIMIT_PER_S


async def test_the_burst_of_a_quota_is_used_up_before_the_sample(autojump_clock: MockClock) -> None:
    """The sample begins after so many replies, however long the noisy producer needs for them."""
    world = World(autojump_clock)
    counted: list[float] = []
    polite, noisy = Actor(world), Actor(world)

    async def set_quota(requests_per_s: float | None) -> None:
        await world.set_quota(requests_per_s)
        counted.append(world.answered)

    def cpu_ticks() -> None:
        counted.append(world.answered)

    made = Experiment(
        cast("ChildProcess", polite), cast("ChildProcess", noisy), set_quota, cpu_ticks
    )
    await made.run(Schedule(job_s=0, rounds=1, settle_s=0.1))

    with_quota = counted[-4:]  # set; before and after its sample; removed
    assert with_quota[1] - with_quota[0] >= BURST


async def test_the_quota_is_gone_at_the_end(autojump_clock: MockClock) -> None:
    """The noisy producer stops and has no quota, so that what was held back is answered."""
    world = World(autojump_clock)

    await experiment(world).run(Schedule(job_s=0, rounds=1))

    assert (world.runs, world.limit) == (False, None)


async def test_other_programs_are_measured_during_each_sample(autojump_clock: MockClock) -> None:
    """Their share is that of the measured times, not of the settling times in between."""
    world = World(autojump_clock)
    looks = iter(range(100))

    def cpu_ticks() -> CpuTicks:
        look = next(looks)  # even ones begin a sample, odd ones end it
        return CpuTicks(total=100 * look, busy=40 * look, own=10 * look)

    polite, noisy = Actor(world), Actor(world)
    made = Experiment(
        cast("ChildProcess", polite), cast("ChildProcess", noisy), world.set_quota, cpu_ticks
    )
    comparison = await made.run(Schedule(job_s=0, rounds=2))

    assert comparison.others() == pytest.approx(0.3)
    assert next(looks) == 2 * 2 * len(Condition)


async def test_a_silent_polite_producer_ends_the_experiment(autojump_clock: MockClock) -> None:
    """Without an acknowledgement there is no latency, and none is made up."""
    with pytest.raises(DemoError, match="polite"):
        await experiment(World(autojump_clock), silent=True).run(Schedule(job_s=0, rounds=1))


@pytest.mark.parametrize("seconds", [1, 10, 40, 120])
def test_a_schedule_takes_about_as_long_as_asked(seconds: float) -> None:
    """Both parts together take the time that was asked for, with at least one round."""
    schedule = schedule_of(seconds)

    assert schedule.rounds >= 1
    assert schedule.job_s <= 8
    one_round_s = schedule.experiment_s / schedule.rounds
    assert abs(schedule.job_s + schedule.experiment_s - seconds) < one_round_s
