"""Gates: a policy's quick check of ordinary requests, in place of its `on_request` (`Policy.gate`).

Rules:
- A gate is used where the policy alone judges the API's requests by their header, and no policy hears their replies or
  ends. It enforces, and closes connections on a fault of its own. Otherwise `on_request` is called, as without a gate.
- A gate that returns True has done all that `on_request` would have done, which would have returned FORWARD. After
  any other result `on_request` is called, so the gate must have changed nothing.
- A session whose hooks are always measured has no gates, so that the measured calls are those of `on_request`. While
  the hooks of all sessions are measured, after a slow step, the others keep their gates.
- The core calls `ClientGate.passes`, which makes no integer object in the compiled build. A gate that is any other
  callable is called by a CalledGate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Policy
from policies.verdicts import VerdictError, short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.api import Gate, Peer
    from policies.hook_runner import HookRunner
    from policies.hooks import Entry, OpenGate


class ClientGate:
    """The gate of one client and API, as the core calls it."""

    __slots__ = ()

    def passes(self, size_bytes: int, now_ms: int) -> bool:
        """Return whether a request of this size is forwarded; if not, nothing has changed."""
        raise NotImplementedError


class CalledGate(ClientGate):
    """A gate that is a function of a policy: it passes what the function returns True for, and nothing else."""

    __slots__ = ("_call",)

    def __init__(self, call: Gate) -> None:
        self._call = call

    def passes(self, size_bytes: int, now_ms: int) -> bool:
        """See ClientGate."""
        return self._call(size_bytes, now_ms) is True


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
