"""Gates: a policy's quick check of ordinary requests, in place of its `on_request` (`Policy.gate`).

Rules:
- A gate is used where the policy alone judges the API's requests by their header, and no policy hears their replies or
  ends. It enforces, and closes connections on a fault of its own. Otherwise `on_request` is called, as without a gate.
- A gate that returns True has done all that `on_request` would have done, which would have returned FORWARD. After
  any other result `on_request` is called, so the gate must have changed nothing.
- A session whose hooks are always measured has no gates, so that the measured calls are those of `on_request`. While
  the hooks of all sessions are measured, after a slow step, the others keep their gates.
- A gate that is no ClientGate is called by a CalledGate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Policy
from policies.client_gate import CalledGate, ClientGate
from policies.verdicts import VerdictError, short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.api import Peer
    from policies.hook_runner import HookRunner
    from policies.hooks import Entry, OpenGate


def maybe_open_gate(asked: Sequence[Entry], hook_runner: HookRunner) -> OpenGate | None:
    """Return the function that makes the gates of an API; `asked` are the entries that judge its requests.

    None: each request gets `on_request`.
    """
    if len(asked) != 1:
        return None
    (entry,) = asked
    policy = entry.policy
    if entry.forwards_on_error or type(policy).gate is Policy.gate:
        return None

    def open_gate(api_key: int, acks: int | None, peer: Peer) -> ClientGate | None:
        gate = hook_runner.run(
            entry.name, "gate", policy.gate, api_key, acks, peer, check=_check_gate
        )
        return gate if gate is None or isinstance(gate, ClientGate) else CalledGate(gate)

    return open_gate


def _check_gate(gate: object) -> None:
    if gate is not None and not callable(gate):
        raise VerdictError(f"expected a callable or None, got {short_repr(gate)}")
