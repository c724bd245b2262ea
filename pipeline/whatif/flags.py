"""Why a limit would not hold for a client, or why its prediction is uncertain.

- `unenforceable`: enforcement `channel` mutes a connection for one window at most, so each connection passes one
  request per window, even if the limit is smaller.
- `reconnects`: enforcement `channel` mutes a connection; a client that opens a new one for each few requests escapes.
- `acks_0`: enforcement `channel` judges a request by its reply, and a Produce with acks=0 has none. Only a capture
  shows it.
- `demand_unknown`: the client was blocked by its quota all the time when it was recorded; it may want less than is
  predicted here, or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from policies.quota.entity import REQUEST_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pipeline.whatif.closed_loop import Simulated
    from pipeline.whatif.demand import ClientDemand
    from pipeline.whatif.script import ClientSession

    Reals = NDArray[np.float64]

UNENFORCEABLE: Final = "unenforceable"
RECONNECTS: Final = "reconnects"
NO_REPLY: Final = "acks_0"
DEMAND_UNKNOWN: Final = "demand_unknown"
OVER: Final = 1.05
"""A rate that is above the limit by this factor is not held to it."""
MANY_EXEMPT: Final = 0.2
"""Each new connection begins with requests that no quota counts; more of them than this mean that it is short."""
SHORT_SESSION: Final = 10
"""A connection of so few requests is short."""
MANY_SESSIONS: Final = 10
"""A client with more connections than this in a capture, most of them short, reconnects."""


def flags_of(
    enforcement: str,
    key: str,
    demand: ClientDemand,
    outcome: Simulated,
    connections: Reals,
    exempt_share: Reals,
) -> tuple[list[str], list[str]]:
    """Return a flag for each client, empty if there is none, and the reason in words."""
    clients = len(demand.member)
    flags, reasons = [""] * clients, [""] * clients
    bucket = np.repeat(np.arange(len(demand.limit)), np.diff(demand.first_client))
    own = bucket[demand.member]
    limit = demand.limit[own]
    seconds = np.maximum(outcome.seconds, 1.0)
    rate = np.bincount(bucket, outcome.accepted / seconds, len(demand.limit))[own]
    wanted = (outcome.wanted / seconds)[demand.member]
    together = np.bincount(own, connections, len(demand.limit))[own]
    for place in np.flatnonzero(demand.saturated[demand.member] > 0):
        flags[place] = DEMAND_UNKNOWN
        reasons[place] = (
            "its quota blocked it all the time when it was recorded: "
            f"that it wants {wanted[place]:.4g} per second is a guess"
        )
    if enforcement != "channel":
        return flags, reasons
    for place in np.flatnonzero((exempt_share > MANY_EXEMPT) & (wanted > 0)):
        flags[place] = RECONNECTS
        reasons[place] = (
            f"{100 * exempt_share[place]:.0f} % of its requests open a connection: "
            "a new connection is not muted, so it escapes the limit"
        )
    if key == REQUEST_RATE:
        for place in np.flatnonzero((rate > limit * OVER) & (together > limit)):
            flags[place] = UNENFORCEABLE
            reasons[place] = (
                f"{together[place]:.0f} connections and a limit of {limit[place]:.4g}: "
                "each connection may send one request per window"
            )
    return flags, reasons


def captured_flag(
    enforcement: str, limit: float | None, rate: float, sessions: Sequence[ClientSession]
) -> tuple[str, str]:
    """Return the flag and the reason for a client of a capture; empty if there is none."""
    if enforcement != "channel" or limit is None or not sessions:
        return "", ""
    steps = [step for session in sessions for step in session.steps]
    silent = sum(step.silent for step in steps) / max(len(steps), 1)
    short = sum(len(session.steps) <= SHORT_SESSION for session in sessions)
    if silent > MANY_EXEMPT:
        return NO_REPLY, (
            f"{100 * silent:.0f} % of its requests have acks=0: they have no reply, "
            "so their number is never judged"
        )
    if rate <= limit * OVER:
        return "", ""
    if short > len(sessions) / 2 and len(sessions) > MANY_SESSIONS:
        return RECONNECTS, (
            f"{len(sessions)} connections, most with at most {SHORT_SESSION} requests: "
            "a new connection is not muted, so it escapes the limit"
        )
    return UNENFORCEABLE, (
        f"{len(sessions)} connections and a limit of {limit:.4g}: "
        "each connection may send one request per window"
    )
