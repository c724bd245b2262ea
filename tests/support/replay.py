"""The replay of a capture: the same policy gets the same questions in the same order at the same times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from policies.api import EXEMPT, Hold, Peer, Throttle
from policies.quota.policy import Quota
from policies.testing import BenchHost, BenchRequest, BenchResponse
from wire import apis

Row = dict[str, Any]


@dataclass
class Played:
    """The policy's verdicts on one request and on its reply."""

    verdict: str
    delay_ms: int = 0
    reply_delay_ms: int = 0


def replay(rows: Sequence[Row], settings: Mapping[str, object]) -> dict[int, Played]:
    """Return by `seq` the verdicts of a new quota policy with these settings on the recorded requests."""
    policy = Quota(msgspec.convert(settings, Quota.Config), BenchHost())
    requests = {row["seq"]: _request(row) for row in rows}
    peers = {
        row["seq"]: Peer(row["session"], "h", 1, client_id=row["client_id"], user=row["user"])
        for row in rows
    }
    asked: list[tuple[int, str, int, Row]] = []
    for row in rows:
        asked.append((row["event"], "request", row["now_ms"], row))
        again = zip(row["released_event"], row["released_ms"], strict=True)
        asked += [(event, "request", at_ms, row) for event, at_ms in again]
        if row["replied_event"]:
            asked.append((row["replied_event"], "reply", row["replied_ms"], row))
    played: dict[int, Played] = {}
    for _, what, now_ms, row in sorted(asked, key=lambda each: each[0]):
        seq = row["seq"]
        if what == "request":
            played[seq] = _said(policy.on_request(requests[seq], peers[seq], now_ms))
        else:
            response = BenchResponse(row["reply_bytes"], row["reply_throttle_time_ms"])
            said = policy.on_response(requests[seq], response, peers[seq], now_ms)
            played[seq].reply_delay_ms = said.throttle_time_ms if isinstance(said, Throttle) else 0
    return played


def recorded(rows: Sequence[Row]) -> dict[int, Played]:
    """Return the verdicts that the capture recorded."""
    return {
        row["seq"]: Played(row["verdict"], row["delay_ms"], row["reply_delay_ms"]) for row in rows
    }


def _request(row: Row) -> BenchRequest:
    api = apis.known(row["api_key"], row["api_version"])
    assert api is not None
    return BenchRequest(api, row["exchange"], row["node"], row["size_bytes"], row["acks"])


def _said(verdict: object) -> Played:
    if verdict is EXEMPT:
        return Played("exempt")
    if isinstance(verdict, Throttle):
        return Played("throttle", verdict.throttle_time_ms)
    return Played("hold" if isinstance(verdict, Hold) else type(verdict).__name__.lower())
