"""Apply a changed configuration while the proxy runs: all of it, or nothing.

Rules:
- The configuration is checked as at the start. If one changed setting needs a restart, the whole reload is refused: a
  change that is skipped silently would take effect at the next start.
- New policies are built while the old ones run, and adopt the state of the policy with the same name: no connection is
  dropped and no quota history is lost. Requests in flight end with the hooks they began with. A held request is judged
  again by the policy that replaced its holder, and is forwarded if there is none.
- A changed file that a policy reads (`Services.read`) or that has its class counts as a change of the policies.
- Files that are watched (users, certificates) are loaded first, if they have changed; if one cannot be used, nothing
  else is applied.
- One reload at a time; a second is refused, not queued.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
import trio

from policies import registry
from policies.chain import Chain, PolicyFault
from policies.credential_guard import with_guard
from policies.hooks import adopt_metrics, close_tools, retire
from policies.validation import SettingsError
from proxy.config.changes import POLICIES, changes, hash_of
from proxy.policy_host.retired_policies import RetiredPolicies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from policies.api import Policy
    from policies.chain import Entry, Reporter
    from policies.entry_host import ProxyServices
    from proxy.config import Config
    from proxy.core.engine import Engine

_LIVE: Final = frozenset({POLICIES, "policies_path"})


class ReloadResult(NamedTuple):
    """The outcome of a reload. Unless `ok` nothing has changed, and `problems` has the reasons."""

    ok: bool
    changed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class ConfigChange(NamedTuple):
    """The key paths that differ from the configuration that runs, and the hash of the new one."""

    changed: tuple[str, ...]
    config_hash: str


class ReloadRunningError(Exception):
    """Another reload is running. The message says so."""


@dataclass(slots=True)
class ReloadTally:
    """Counts of reloads. `loaded_ms`: when the last one was applied; `policies_ms`: when policies last changed."""

    loaded_ms: int
    policies_ms: int
    succeeded: int = 0
    failed: int = 0
    last_ok: bool | None = None
    last_ms: int = 0


class Reloader:
    """Reads the configuration again and applies it.

    `dynamic` has the function that applies each setting that may change live; a key path covers the paths below it.
    `load_files` load what is in other files: each returns why that cannot be used, "" if it can.
    """

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        engine: Engine,
        services: ProxyServices,
        reporter: Reporter,
        dynamic: Mapping[str, Callable[[Config], None]],
        now_ms: Callable[[], int],
        load_files: Sequence[Callable[[], Awaitable[str]]] = (),
    ) -> None:
        self.config = config
        self.config_hash = hash_of(config)
        self.tally = ReloadTally(now_ms(), now_ms())
        self._load = load
        self._engine = engine
        self._services = services
        self._reporter = reporter
        self._dynamic = dynamic
        self._now_ms = now_ms
        self._load_files = load_files
        self._retired = RetiredPolicies(engine.timers)
        self._reading: object = None  # stands for the reload that runs
        self._log = structlog.get_logger()

    @property
    def live(self) -> tuple[str, ...]:
        """The key paths that a reload may change."""
        return (*sorted(_LIVE), *self._dynamic)

    async def reload(self) -> ReloadResult:
        """Read and apply the configuration. Raises ReloadRunningError while another reload is running."""
        if self._reading is not None:
            raise ReloadRunningError("a reload is running")
        self._reading = reading = object()
        try:
            result = await self._reload(reading)
        finally:
            self._reading = None
        tally = self.tally
        tally.last_ok, tally.last_ms = result.ok, self._now_ms()
        if result.ok:
            tally.succeeded += 1
            tally.loaded_ms = tally.last_ms
            self._log.info("config_reloaded", changed=list(result.changed))
        else:
            tally.failed += 1
            self._log.warning("config_reload_failed", problems=list(result.problems))
        return result

    async def _reload(self, reading: object) -> ReloadResult:
        for load in self._load_files:
            if refused := await load():
                return ReloadResult(ok=False, problems=(refused,))
        # Off the loop: it makes policies and reads files. A cancellation does not wait for a disk.
        read = await trio.to_thread.run_sync(self._read, reading, abandon_on_cancel=True)
        if isinstance(read, ReloadResult):
            return read
        config, compared = read
        try:
            return self._take_over(config, compared)
        except PolicyFault as fault:
            return ReloadResult(ok=False, problems=(str(fault),))
        except Exception as error:  # noqa: BLE001 - a bug of ours ends no process
            self._engine.report(error)
            return ReloadResult(
                ok=False, problems=(f"it cannot be applied: {type(error).__name__}",)
            )
        finally:
            registry.discard(config.policies)  # those that were not built

    def _read(self, reading: object) -> tuple[Config, ConfigChange] | ReloadResult:
        """Return the configuration of the file and its differences from the running one; or why it is refused.

        Runs in a thread. It raises nothing: an exception that leaves a thread is part of a cycle with Trio's frames.
        """
        try:
            config = self._load()
        except SettingsError as error:
            return ReloadResult(ok=False, problems=tuple(map(str, error.problems)))
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a policy may raise either
            words = f"the configuration cannot be read: {type(error).__name__}: {error}"
            return ReloadResult(ok=False, problems=(words,))
        if self._reading is not reading:  # the reload was cancelled meanwhile
            registry.discard(config.policies)
        return config, ConfigChange(tuple(changes(self.config, config)), hash_of(config))

    def _take_over(self, config: Config, compared: ConfigChange) -> ReloadResult:
        changed = compared.changed
        fixed = [path for path in changed if not self._is_live(path)]
        if fixed:
            words = "cannot be changed without a restart"
            return ReloadResult(ok=False, problems=tuple(f"{path}: {words}" for path in fixed))
        if POLICIES in changed:
            try:
                hook_runner = self._engine.chain.hook_runner
                entries = registry.build(config.policies, self._services, hook_runner)
                self._adopt(with_guard(entries, config.upstream.forwarded_credential_apis()))
                self.tally.policies_ms = max(self._now_ms(), self.tally.policies_ms + 1)
            except SettingsError as error:
                # Only if `load` has not made them.
                return ReloadResult(ok=False, problems=tuple(map(str, error.problems)))
        for path, apply in self._dynamic.items():
            if any(_covers(path, each) for each in changed):
                apply(config)
        self.config = config
        self.config_hash = compared.config_hash
        return ReloadResult(ok=True, changed=changed)

    def _is_live(self, path: str) -> bool:
        return path in _LIVE or any(_covers(setting, path) for setting in self._dynamic)

    def _adopt(self, entries: list[Entry]) -> None:
        """Swap the chains between two requests."""
        engine = self._engine
        old = {entry.name: entry for entry in engine.chain.entries}
        before = {name: entry.policy for name, entry in old.items()}
        heirs = [
            (entry, before[entry.name])
            for entry in entries
            if _kind_of(before.get(entry.name)) == _kind_of(entry.policy)
        ]
        gone = before.keys() - {entry.name for entry, _ in heirs}
        # The chain first: a request that `adopt` wakes is judged by the new policies.
        hook_runner = engine.chain.hook_runner
        try:
            chain = Chain(entries, self._reporter, hook_runner)
        except PolicyFault:
            retire(entries)
            raise
        for entry, _ in heirs:
            adopt_metrics(entry, old[entry.name])
        lease = engine.chain.lease
        engine.adopt_chain(chain, gone)
        retire(old.values())
        self._retired.add(old.values(), lease, self._now_ms())
        for entry, policy in heirs:
            hook_runner.notify(entry.name, "adopt", entry.policy.adopt, policy)
        if gone:  # a removed policy no longer throttles any client
            engine.review_throttles(lambda _peer, why: 0 if why.policy in gone else inf)
        for name in sorted(gone):
            hook_runner.notify(name, "close", before[name].close)
            close_tools(old[name])
        hook_runner.forget_others(entry.name for entry in entries)


def _kind_of(policy: Policy | None) -> tuple[str, str]:
    """Return the names of a policy's module and class, the same for a class whose file has changed."""
    return type(policy).__module__, type(policy).__qualname__


def _covers(setting: str, path: str) -> bool:
    return path == setting or path.startswith(f"{setting}.")
