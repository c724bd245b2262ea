"""Live changes of policies, by the name of their entry.

Rules:
- The policy judges every change (`policies.live_changes`). Its fault is reported as that of a hook, and answered 500.
- Called on the event loop. A change takes effect before the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from policies.api import PolicyConfigError
from policies.live_changes import TakesLiveChanges
from policies.type_names import nearest
from proxy.admin.errors import AdminError
from proxy.admin.schemas import PolicyState
from proxy.shell.driver import nudge
from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.core.engine import Engine
    from proxy.shell.event_loop import EventLoop

MAX_STATE_BYTES: Final = 262_144


class LivePolicies:
    """Shows and changes the policies of the chain that take live changes."""

    def __init__(self, engine: Engine, event_loop: EventLoop) -> None:
        self._engine = engine
        self._event_loop = event_loop

    def state(self, name: str) -> PolicyState:
        """Return what the policy of this entry shows. Raises AdminError: 404, 409, or 500 for the policy's fault."""
        policy = self._find(name)
        try:
            said = msgspec.json.encode(policy.live_state())
        except Exception as fault:
            raise self._blame(name, "live_state", fault) from fault
        if not said.startswith(b"{") or len(said) > MAX_STATE_BYTES:
            mistake = ValueError(
                f"expected an object of at most {MAX_STATE_BYTES} bytes, got {len(said)} bytes"
            )
            raise self._blame(name, "live_state", mistake) from mistake
        return PolicyState(name, msgspec.Raw(said))

    def change(self, name: str, change: Mapping[str, object], now_ms: int) -> PolicyState:
        """Apply a change and return the new state. Raises AdminError as `state` does, and 400 for a wrong change."""
        policy = self._find(name)
        try:
            policy.change_live(change, now_ms)
        except PolicyConfigError as mistake:
            raise AdminError(400, str(mistake)) from mistake
        except Exception as fault:
            raise self._blame(name, "change_live", fault) from fault
        nudge(self._event_loop)
        return self.state(name)

    def _find(self, name: str) -> TakesLiveChanges:
        entries = {entry.name: entry.policy for entry in self._engine.chain.entries}
        policy = entries.get(name)
        if policy is None:
            near = nearest(name, entries)
            hint = f"; did you mean {near}?" if near else ""
            raise AdminError(404, f"no policy entry has the name {printable(name)!r}{hint}")
        if not isinstance(policy, TakesLiveChanges):
            raise AdminError(409, f"policy {name} takes no live changes: change its settings")
        return policy

    def _blame(self, name: str, hook: str, fault: Exception) -> AdminError:
        self._engine.observer.on_policy_error(name, hook, fault)
        return AdminError(500, f"policy {name} failed in {hook}; the log has more")
