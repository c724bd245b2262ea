"""Predictions from a capture: every request of it, simulated with the quota policy itself."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from pipeline.whatif.delays import DelayCounts
from pipeline.whatif.flags import captured_flag
from pipeline.whatif.results import RESULT
from pipeline.whatif.script import sessions_of
from pipeline.whatif.simulator import Simulation
from policies.quota.config import QuotaConfig, QuotaRule
from policies.quota.entity import REQUEST_RATE, tags_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.whatif.capture import Row
    from pipeline.whatif.predict import Candidate
    from pipeline.whatif.script import ClientSession
    from pipeline.whatif.simulator import Passed

    Key = tuple[str, str]


def config_of(candidate: Candidate, factor: float = 1.0) -> QuotaConfig:
    """Return the settings of the quota policy for this candidate, all limits times `factor`."""
    lines = [
        msgspec.structs.replace(
            QuotaRule(user=line.user, client_id=line.client_id),
            **{key: value * factor for key, value in line.limits()},
        )
        for line in candidate.lines
    ]
    return QuotaConfig(
        enforcement=candidate.enforcement,
        burst_seconds=candidate.burst_seconds,
        quota_window_num=candidate.quota_window_num,
        quota_window_size_seconds=candidate.quota_window_size_seconds,
        quotas=tuple(lines),
    )


def predict_capture(rows: Sequence[Row], candidate: Candidate) -> Iterator[pa.Table]:
    """Yield the predictions of each factor for the clients of one process, in requests; tables of `RESULT`."""
    if not rows:
        return
    sessions = sessions_of(rows)
    spans = _spans(sessions)
    ends_ms = max(end_ms for _, end_ms in spans.values())
    unlimited = config_of(candidate).__class__(enforcement=candidate.enforcement)
    free = _by_client(Simulation(sessions, unlimited, ends_ms).passed, sessions, spans)
    quotas = candidate.quotas()
    for factor in candidate.factors:
        simulation = Simulation(sessions, config_of(candidate, factor), ends_ms)
        passed = _by_client(simulation.passed, sessions, spans)
        found = []
        for (user, client_id), (begun_ms, end_ms) in spans.items():
            mine, seconds = passed[user, client_id], (end_ms - begun_ms) / 1000
            delays_ms = np.array([each.delay_ms for each in mine], np.float64)
            counts = DelayCounts(1)
            late = delays_ms[delays_ms > 0]
            counts.add(np.zeros(len(late), np.int64), late, np.ones(len(late)))
            indexes, numbers = counts.sparse()
            resolved = quotas.resolve(REQUEST_RATE, user, client_id)
            limit = None if resolved is None else resolved.limit * factor
            own = [each for each in sessions if _key(each) == (user, client_id)]
            flag, reason = captured_flag(candidate.enforcement, limit, len(mine) / seconds, own)
            found.append(
                {
                    "instance": rows[0]["instance"],
                    "user": user,
                    "client_id": client_id,
                    "factor": factor,
                    "limit_key": REQUEST_RATE,
                    "quota_entity": "" if resolved is None else tags_text(resolved.tags),
                    "limit": limit,
                    "seconds": seconds,
                    "connections": _most_open(own),
                    "wanted_per_s": len(free[user, client_id]) / seconds,
                    "accepted_per_s": len(mine) / seconds,
                    "requests": float(len(mine)),
                    "throttled_share": len(late) / max(len(mine), 1),
                    "delay_p50_ms": _percentile(delays_ms, 50),
                    "delay_p99_ms": _percentile(delays_ms, 99),
                    "flag": flag,
                    "reason": reason,
                    "delay_i": indexes[0],
                    "delay_n": numbers[0],
                }
            )
        yield pa.Table.from_pylist(found, RESULT)


def _percentile(delays_ms: np.ndarray[tuple[int], np.dtype[np.float64]], share: float) -> float:
    return float(np.percentile(delays_ms, share)) if len(delays_ms) else 0.0


def _key(session: ClientSession) -> Key:
    return session.peer.user, session.peer.client_id


def _spans(sessions: Sequence[ClientSession]) -> dict[Key, tuple[int, int]]:
    """Return when each client was recorded: from its first request to the end of its last one."""
    spans: dict[Key, tuple[int, int]] = {}
    for session in sessions:
        begun_ms, end_ms = spans.get(_key(session), (session.start_ms, session.end_ms))
        begun_ms, end_ms = min(begun_ms, session.start_ms), max(end_ms, session.end_ms)
        spans[_key(session)] = (begun_ms, max(end_ms, begun_ms + 1))
    return spans


def _by_client(
    passed: Sequence[Passed], sessions: Sequence[ClientSession], spans: dict[Key, tuple[int, int]]
) -> dict[Key, list[Passed]]:
    """Return the charged requests that passed while their client was recorded."""
    found: dict[Key, list[Passed]] = defaultdict(list)
    for each in passed:
        key = _key(sessions[each.session])
        if each.charged and each.forwarded_ms <= spans[key][1]:
            found[key].append(each)
    return found


def _most_open(sessions: Sequence[ClientSession]) -> int:
    """Return how many of these connections were open at once."""
    changes = sorted(
        change for each in sessions for change in ((each.start_ms, 1), (each.end_ms + 1, -1))
    )
    return max(np.cumsum([by for _, by in changes]).tolist(), default=0)
