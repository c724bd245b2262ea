"""The second part of the play: the polite producer alone, beside the noisy one, and with a quota.

Rules:
- The three arms take turns, a second or so each, so that whatever else the machine does falls on all
  of them alike.
- Nothing is started anew between them: the same two clients on the same connections; the noisy one
  goes or rests on cue, and its quota is set and removed while it goes.
- After each change a settling time passes unmeasured.
- The burst that a new quota allows is used up before that time begins: so many replies are counted first, however
  slow the machine is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from proxy.demo import cpu
from proxy.demo.comparison import Arm, Comparison, Marks, Progress, sample
from proxy.demo.messages import Tick
from proxy.demo.process import StageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.demo.cpu import Used
    from proxy.demo.process import Child

LIMIT_PER_S = 50.0
BURST = 2 * LIMIT_PER_S
"""Requests that pass at once when the quota begins: its `burst_seconds` are the default, 2."""
PATIENCE_S = 10.0
LOOK_S = 0.1


class Script(NamedTuple):
    """How long everything takes."""

    job_s: float
    """The first part: producers and a group of readers."""
    rounds: int
    """Of the second part, all three arms each."""
    settle_s: float = 0.5
    measure_s: float = 1.0

    @property
    def contest_s(self) -> float:
        """How long the second part takes."""
        return self.rounds * len(Arm) * (self.settle_s + self.measure_s)


def script_of(seconds: float) -> Script:
    """Return a play of about so many seconds: up to eight of them for the first part."""
    job_s = min(8.0, seconds / 4)
    one = Script(job_s, 1)
    return one._replace(rounds=max(1, round((seconds - job_s) / one.contest_s)))


class Contest:
    """The two clients, and what can be changed."""

    def __init__(
        self,
        polite: Child,
        noisy: Child,
        limit: Callable[[float | None], Awaitable[None]],
        used: Callable[[], Used | None] = lambda: None,
    ) -> None:
        self._polite = polite
        self._noisy = noisy
        self._limit = limit
        """Give the noisy one this quota, in requests per second, or none."""
        self._used = used
        """What CPU was used, by all and by us."""

    async def play(
        self, script: Script, told: Callable[[Progress], None] = lambda _: None
    ) -> Comparison:
        """Take all samples, and tell after each. Raises StageError when there is nothing to tell."""
        comparison = Comparison(LIMIT_PER_S)
        for turn in range(1, script.rounds + 1):
            for arm in Arm:
                await self._set(arm)
                await trio.sleep(script.settle_s)
                used, before = self._used(), await self._marks()
                await trio.sleep(script.measure_s)
                after = await self._marks()
                others = cpu.maybe_others(used, self._used())
                try:
                    comparison.add(arm, sample(before, after), others)
                except ValueError as error:
                    raise StageError(str(error)) from error
                told(Progress(comparison, arm, turn, script.rounds))
        await self._set(Arm.ALONE)
        return comparison

    async def _set(self, arm: Arm) -> None:
        """Alone comes after `with`: what the quota held back passes when it is removed, first."""
        if arm is Arm.ALONE:
            await self._noisy.cue("rest")
            await self._limit(None)
            await self._until_answered()
        elif arm is Arm.WITHOUT:
            await self._noisy.cue("go")
        else:
            before = await self._marks()
            await self._limit(LIMIT_PER_S)
            await self._until_noisy_has(before.noisy.answered + BURST)

    async def _until_noisy_has(self, count: float) -> None:
        with trio.move_on_after(PATIENCE_S):
            while True:
                if (await self._marks()).noisy.answered >= count:
                    return
                await trio.sleep(LOOK_S)

    async def _until_answered(self) -> None:
        with trio.move_on_after(PATIENCE_S):
            while True:
                if not (await self._marks()).noisy.outstanding:
                    return
                await trio.sleep(LOOK_S)

    async def _marks(self) -> Marks:
        return Marks(
            polite=await self._polite.ask("mark", Tick, PATIENCE_S),
            noisy=await self._noisy.ask("mark", Tick, PATIENCE_S),
        )
