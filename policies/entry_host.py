"""The host of one entry's policy, as `Host` promises it: before it is connected there is no proxy.

Rules:
- A policy that is made reads its files at once; its alarms wait, and what it asks of a proxy has no effect.
- A state file has one owner among the entries of a configuration.
- What a policy says of its throttles counts for its own only.
"""

from __future__ import annotations

from errno import EBUSY, ENOENT
from hashlib import blake2b
from math import inf
from posixpath import normpath
from typing import TYPE_CHECKING, Protocol

from policies.api import Services
from policies.entry_tools import EntryTools, ToolServices
from policies.hook_runner import HookRunner, PolicyFault
from policies.verdicts import check_time, short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from policies.api import Peer, QuotaViolation
    from policies.decision import PolicyDecision
    from policies.policy_log import MessageLevel

MAX_AT_MS = (1 << 48) - 1
"""The latest alarm, in ms since the epoch: the year 10889."""


class Files(Protocol):
    """The part of `Services` that a policy uses while it is made."""

    def load(self, path: str, /) -> bytes | None:
        """See Services."""

    def read(self, path: str, max_bytes: int, /) -> bytes:
        """See Services."""


class ProxyServices(Services, ToolServices, Protocol):
    """All services of a running proxy for its policies."""


class EntryHost(EntryTools):
    """The host of one entry's policy. Before `connect` there is no proxy: it reads files and stores alarms."""

    def __init__(self, name: str, mode: str, files: Files, owners: dict[str, str]) -> None:
        super().__init__(name, files.read)
        self.observes = mode == "observe"
        self._owners = owners
        self.digests: dict[str, str] = {}
        """Of the files that were read, by path."""
        self._files: Files
        self._use(NullServices(), HookRunner(NullServices()))
        self._files = files

    def connect(self, services: ProxyServices, hook_runner: HookRunner) -> None:
        """Use the services of a proxy from now on; alarms that were stored are set now."""
        self._use(services, hook_runner)
        self.connect_tools(services, hook_runner)

    def _use(self, services: Services, hook_runner: HookRunner) -> None:
        self._hook_runner = hook_runner
        self._files = services
        self.wake = services.wake
        self.reconsider = services.reconsider
        self._review = services.review_throttles
        self.save = services.save
        self.topic_name = services.topic_name
        self.speaks_as_itself = services.speaks_as_itself

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Set an alarm, as `Services` says. An exception of the call is reported and has no other effect."""
        if type(at_ms) is not int or not 0 <= at_ms <= MAX_AT_MS:
            raise TypeError(f"at_ms is {short_repr(at_ms)}, expected an integer in 0..{MAX_AT_MS}")
        if not callable(call):
            raise TypeError(f"call is {short_repr(call)}, expected a function of now_ms")
        self.set_alarm(at_ms, call)

    def load(self, path: str) -> bytes | None:
        """Read a file, as `Services` says. Raises OSError if another entry keeps its state in the same file."""
        owner = self._owners.setdefault(normpath(path), self.name)
        if owner != self.name:
            raise OSError(EBUSY, f"the entry {owner} keeps its state in the same file", path)
        return self._files.load(path)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Read a file, as `Services` says."""
        content = self._files.read(path, max_bytes)
        self.digests[path] = blake2b(content, digest_size=16).hexdigest()
        return content

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Review this entry's throttles, as `Services` says.

        Throttles of other entries stay as they are, and so do those for which `until_ms` raises.
        """

        def review(peer: Peer, why: QuotaViolation) -> float:
            if why.policy != self.name:
                return inf
            hook = "review_throttles"
            try:
                return self._hook_runner.run(self.name, hook, until_ms, peer, why, check=check_time)
            except PolicyFault:
                return inf

        self._review(review)


class NullServices:
    """Does nothing, for policies that are made only to find out whether they can be made."""

    def wake(self, key: Hashable) -> int:
        """Return 0: no request is held."""
        return 0

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Ignore the alarm."""

    def reconsider(self) -> None:
        """Do nothing: there is no chain."""

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Do nothing: no client is throttled."""

    def speaks_as_itself(self) -> bool:
        """Return True: nobody knows, and the brokers may judge Sluice."""
        return True

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return None: there is no reply to read names from."""
        return None

    def load(self, path: str) -> bytes | None:
        """Return None: there is no file."""
        return None

    def why_untrusted(self, path: str) -> str:
        """Return that nothing is known of it."""
        return f"{path} is not known"

    def read(self, path: str, max_bytes: int) -> bytes:
        """Raise FileNotFoundError: there is no file."""
        raise FileNotFoundError(ENOENT, "there are no files here", path)

    def save(self, path: str, data: bytes) -> None:
        """Ignore the data."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """Ignore it: no hook is called."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """Ignore it: no hook is called."""

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """Ignore it: no hook is called."""

    def on_policy_message(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """Ignore it: nothing is served."""

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """Ignore it: there is no clock."""
