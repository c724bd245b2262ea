"""States of a proxy as GET /v1/state tells them, made up: as many connections as wanted, the same each time.

They are for looking at the dashboard where no proxy has so many clients; what a real one tells is tested with one.
"""

import random
from typing import Any, Final

LISTED: Final = 200
HISTORY: Final = 900
STARTED_MS: Final = 1_790_000_000_000
USERS: Final = ("checkout", "billing", "search", "reports", "etl", "fraud", "stock", "mail")
SHARING: Final = {"etl": 4_000.0, "fraud": float(8 << 20)}
"""Users whose clients share a limit: of requests, or of bytes."""
JOBS: Final = ("api", "worker", "loader", "stream", "batch", "sync", "replay")
NASTY: Final = "<img src=x onerror=alert(1)>\u202eevil\n" + "x" * 300
"""A client id that a client may well send."""

State = dict[str, Any]


def made_up(connections: int, second: int = 0, *, trace_url: str = "") -> State:
    """The state of that second: with history, and with `point` besides."""
    dice = random.Random(connections * 10_007 + second)
    ts_ms = STARTED_MS + 11_520_000 + second * 1000
    points = [_point(connections, ts_ms - ago * 1000) for ago in range(HISTORY - 1, -1, -1)]
    held = connections // 40
    principals, buckets = _principals(connections, dice)
    return {
        "now": _now(connections, ts_ms, points[-1], trace_url),
        "principals": principals,
        "buckets": buckets,
        "purgatory": _purgatory(connections, held, dice),
        "connections": [_connection(place, dice) for place in range(min(connections, LISTED))],
        "connections_total": connections,
        "nodes": [
            {
                "node": node,
                "port": 19093 + node,
                "address": f"kafka-{node}.internal:9092",
                "connections": connections // 4,
                "answers_per_s": connections * 0.61 * node,
                "latency_ms": {"p50": 2.2 * node, "p99": 31.0 * node},
                "bytes_in_per_s": connections * 620.0 * node,
                "bytes_out_per_s": connections * 11_400.0 * node,
                "heard_ago_ms": 12 if node < 3 else 8_400,
                "silent_ms": 0 if node < 3 else 8_400,
                "errors": 0 if node < 3 else 37,
                "dial_failures": 2 if node == 2 else 0,
                "lost": 0 if node < 3 else 5,
            }
            for node in range(1, 4 if connections else 1)
        ],
        "decisions": [
            _decision(ts_ms - 137 * place, dice) for place in range(100 if connections else 0)
        ],
        "history": points,
        "point": points[-1],
    }


def _now(connections: int, ts_ms: int, point: State, trace_url: str) -> State:
    return {
        "ts_ms": ts_ms,
        "version": "0.1.0",
        "started_ms": STARTED_MS,
        "draining": False,
        "config_hash": "3f9c2a71d0b84e55",
        "last_reload": {"ok": True, "ts_ms": STARTED_MS + 7_200_000} if connections else None,
        "loop_lag_ms": {"p50": 0.2, "p99": point["loop_lag_p99_ms"]},
        "rss_bytes": (38 << 20) + connections * 21_000,
        "memory_limit_bytes": 256 << 20,
        "cpu_percent": 1.2 + connections / 90,
        "connections": connections,
        "requests_per_s": point["requests_per_s"],
        "pools": [
            {
                "name": "request",
                "size_bytes": 64 << 20,
                "used_bytes": point["pool_used_bytes"],
                "available_bytes": (64 << 20) - point["pool_used_bytes"],
                "depleted_percent": 1.4 if connections else 0.0,
                "depleted_ms": 18_400 if connections else 0,
            },
            {
                "name": "response",
                "size_bytes": None,
                "used_bytes": connections * 5_100,
                "available_bytes": 0,
                "depleted_percent": 0.0,
                "depleted_ms": 0,
            },
        ],
        "muted": {
            "THROTTLED": connections // 12,
            "HELD": connections // 40,
            "BACKPRESSURE": connections // 400,
            "OUT_OF_MEMORY": connections // 1000,
        }
        if connections
        else {},
        "dropped": {"spans": connections // 100, "usage_rows": 0},
        "trace_url": trace_url,
    }


def _point(connections: int, ts_ms: int) -> State:
    # Drawn by the second it stands for, so that later states continue earlier ones.
    dice = random.Random(ts_ms)
    wave = 1 + 0.25 * ((ts_ms // 1000 % 300) / 300) + dice.random() * 0.12
    busy = 1.0 if connections else 0.0
    burst = 3.0 if 200 < ts_ms // 1000 % 600 < 260 else 1.0
    return {
        "ts_ms": ts_ms,
        "requests_per_s": connections * 2.3 * wave * burst,
        "throttled_per_s": connections / 60 * dice.random() * (burst - 0.4),
        "parked": int(connections / 9 * wave),
        "pool_used_bytes": int(connections * 6_300 * wave * burst),
        "connections": connections,
        "bytes_in_per_s": connections * 1_900 * wave * burst,
        "bytes_out_per_s": connections * 33_000 * wave * burst,
        "errors_per_s": float(connections // 900) if burst > 1 else 0.0,
        "loop_lag_p99_ms": round(
            (0.4 + connections / 2500 * wave) * (1 + busy * (burst - 1) * 9), 2
        ),
    }


def _principals(connections: int, dice: random.Random) -> tuple[list[State], list[State]]:
    """Eight users; those of `etl` share one bucket, those of `fraud` another, which is full."""
    rows: list[State] = []
    buckets: list[State] = []
    shared: dict[str, int] = {}
    for place in range(min(connections, LISTED)):
        user = USERS[place % len(USERS)]
        client_id = f"{user}-{JOBS[place % len(JOBS)]}-{place}" if place != 5 else NASTY
        limit = (None, 500.0, 250.0, 120.0)[place % 4]
        rate = 900 / (place + 1) ** 0.5 * (0.9 + 0.2 * dice.random())
        if limit is not None:
            rate = min(rate, limit * (0.35 + 0.65 * dice.random()))
        throttled = place % 4 != 0 and place % 3 == 0
        bucket: int | None = None
        if user in SHARING:
            if user not in shared:
                shared[user] = len(buckets)
                buckets.append(_bucket(f"user={user}", SHARING[user], full=user == "fraud"))
            bucket = shared[user]
            buckets[bucket]["principals"] += 1
        elif limit is not None:
            bucket = len(buckets)
            buckets.append(_bucket(f"client-id={client_id}", limit, full=throttled, rate=rate))
            buckets[bucket]["principals"] = 1
        rows.append(
            {
                "user": user,
                "client_id": client_id,
                "connections": 1 + connections // (place + 8),
                "requests_per_s": rate,
                "bytes_in_per_s": rate * 820,
                "bytes_out_per_s": rate * 14_500,
                "latency_ms": {"p50": 3.1 + place / 9, "p99": 24.0 + place}
                if place % 7
                else {"p50": None, "p99": None},
                "errors": 3 if place % 11 == 4 else 0,
                "bucket": bucket,
                "throttled_now": 3 if throttled else 0,
                "throttle_ms": {"p50": 84.0, "p99": 912.0}
                if throttled
                else {"p50": None, "p99": None},
                "throttled": 18_210 // (place + 1) if throttled else 0,
                "throttle_total_ms": 1_250_000 // (place + 1) if throttled else 0,
            }
        )
    rows.sort(key=lambda row: -row["requests_per_s"])
    first: dict[Any, int] = {}
    order = [
        first.setdefault(row["bucket"], at) if row["bucket"] is not None else at
        for at, row in enumerate(rows)
    ]
    return [rows[at] for _, at in sorted(zip(order, range(len(rows)), strict=True))], buckets


def _bucket(entity: str, limit: float, *, full: bool, rate: float | None = None) -> State:
    is_bytes = limit >= 1 << 20
    let_through = limit * 0.62 if rate is None else rate
    return {
        "entity": entity,
        "quota": "producer_byte_rate" if is_bytes else "request_rate",
        "limit": limit,
        "rate": limit if full else let_through,
        "used_percent": 100.0 if full else round(100 * let_through / limit, 1),
        "wait_ms": 1_840 if full else 0,
        "waiting": 4 if full else 0,
        "principals": 0,
    }


def _purgatory(connections: int, held: int, dice: random.Random) -> State:
    fetches = connections // 10
    return {
        "holds": held,
        "produces": connections // 150,
        "fetches": fetches,
        "watched": held * 2,
        "timers": held + fetches,
        "ages": [
            {"le_ms": le_ms, "count": int(fetches * share)}
            for le_ms, share in (
                (10, 0.05),
                (100, 0.2),
                (500, 0.55),
                (1000, 0.12),
                (5000, 0.06),
                (None, 0.02),
            )
        ],
        "outcomes": {
            "condition": connections * 412,
            "expired": connections // 300,
            "drained": 0,
            "client_gone": connections // 70,
            "broker_gone": connections // 900,
            "closed": 0,
        },
        "oldest": [
            {
                "session": 100 + place,
                "user": USERS[place % len(USERS)],
                "client_id": f"{USERS[place % len(USERS)]}-stream-{place}",
                "api": ("Fetch", "Produce")[place % 5 == 4],
                "kind": ("fetch", "fetch", "hold", "fetch", "produce")[place % 5],
                "age_ms": 6200 - 290 * place + dice.randrange(40),
                "waits_for": ("data", "data", "admission", "data", "acks=all")[place % 5],
            }
            for place in range(min(20, held))
        ],
    }


def _connection(place: int, dice: random.Random) -> State:
    user = USERS[place % len(USERS)]
    return {
        "id": 100 + place,
        "client": f"10.4.{place % 250}.{17 + place % 200}:{40_000 + place}",
        "user": user,
        "principal_source": ("sasl", "tls", "fixed", "none")[place % 4],
        "proof": ("sasl:SCRAM-SHA-512", "tls", "config", "")[place % 4],
        "client_id": f"{user}-{JOBS[place % len(JOBS)]}-{place}",
        "client_tls": ("TLSv1.3 TLS_AES_256_GCM_SHA384", "")[place % 2],
        "broker_tls": ("TLSv1.3 TLS_AES_256_GCM_SHA384", "")[place % 3 // 2],
        "node": (None, 1, 2, 3)[place % 4],
        "in_flight": dice.randrange(4),
        "client_unsent_bytes": dice.choice((0, 0, 0, 81_920)),
        "broker_unsent_bytes": dice.choice((0, 0, 0, 0, 4096)),
        "carry_bytes": dice.choice((0, 0, 712, 16_384)),
        "muted": (["THROTTLED"], [], [], [], ["HELD"], [], ["THROTTLED", "BACKPRESSURE"])[
            place % 7
        ],
        "age_s": 11_000 - place * 41,
    }


def _decision(ts_ms: int, dice: random.Random) -> State:
    what = dice.choice(
        ("throttled", "throttled", "throttled", "held", "refused", "expired", "slow")
    )
    user = dice.choice(USERS)
    detail = {
        "throttled": f"request_rate 263.4 of 250.0 (client-id={user}-api-3)",
        "held": "waited for admission to broker 2",
        "refused": "TOPIC_AUTHORIZATION_FAILED: limits forbids DeleteTopics",
        "expired": "the broker had not answered after 30,500 ms",
        "slow": "the broker took 1,840 ms",
    }[what]
    return {
        "ts_ms": ts_ms,
        "user": user,
        "client_id": f"{user}-api-3",
        "api": dice.choice(("Produce", "Fetch", "Metadata")),
        "what": what,
        "ms": dice.randrange(3, 1900),
        "detail": detail,
        "trace_id": f"{dice.getrandbits(128):032x}" if dice.random() < 0.7 else "",
    }
