"""A policy with a bug of each kind: the client id of a request says which. Beside requests every hook raises."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from policies.api import (
    FORWARD,
    Forward,
    Hold,
    Host,
    Outcome,
    Patch,
    Peer,
    Policy,
    Reject,
    Request,
    Respond,
    Response,
    Result,
    Throttle,
    Verdict,
)

ROOT = Path(__file__).parents[3]


class Key:
    """Hashable; everything else raises."""

    def __hash__(self) -> int:
        return 5

    def __eq__(self, other: object) -> bool:
        raise SystemExit(3)

    def __str__(self) -> str:
        raise SystemExit(3)


class UnprintableError(Exception):
    """Its text raises."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


def _recurse() -> Verdict:
    return _recurse()


def _raise(error: BaseException) -> Verdict:
    raise error


BUGS: dict[str, Callable[[], object]] = {
    "none": lambda: None,
    "inf": lambda: Throttle(math.inf),  # type: ignore[arg-type]
    "nan": lambda: Throttle(math.nan),  # type: ignore[arg-type]
    "negative": lambda: Throttle(-5),
    "text": lambda: Throttle("5"),  # type: ignore[arg-type]
    "half": lambda: Hold(0.5, "key"),  # type: ignore[arg-type]
    "eternal": lambda: Hold(1 << 70, "key"),
    "list": lambda: Hold(5, []),  # type: ignore[arg-type]
    "reply": lambda: Respond("text"),  # type: ignore[arg-type]
    "code": lambda: Reject(1 << 20),
    "patch": lambda: Forward((Patch(1 << 20, b"x"),)),
    "exit": lambda: sys.exit(3),
    "interrupt": lambda: _raise(KeyboardInterrupt()),
    "generator": lambda: _raise(GeneratorExit()),
    "memory": lambda: _raise(MemoryError()),
    "recursion": _recurse,
}
"""By client id; the session of each is closed."""
MADE = "BUGGY_MADE"
"""An environment variable: the path of a file that gets a byte whenever the policy is made."""
HELD = "key"
"""A client id whose request is held for 20 ms under a key that raises everywhere, and is then forwarded."""


class Options(msgspec.Struct, frozen=True):
    """None."""


class Buggy(Policy):
    """See the module."""

    Config = Options
    tick_ms = 20

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        with Path(os.environ[MADE]).open("a") as made:
            made.write("x")
        self._alarmed = False

    def effective_quota(self, user: str, client_id: str) -> None:
        sys.exit(3)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        if not self._alarmed:
            self._alarmed = True
            self.host.call_at(now_ms + 10, lambda _: sys.exit(3))
        if peer.client_id == HELD:
            return Hold(20, Key())
        bug = BUGS.get(peer.client_id)
        return FORWARD if bug is None else bug()  # type: ignore[return-value]

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        return None if peer.client_id == "heard" else FORWARD  # type: ignore[return-value]

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        sys.exit(3)

    def on_disconnect(self, peer: Peer, now_ms: int) -> Key:  # type: ignore[override]
        if peer.client_id == "printed":
            return Key()
        raise UnprintableError

    def on_tick(self, now_ms: int) -> None:
        self.host.reconsider()
        raise UnprintableError

    def adopt(self, previous: Policy) -> None:
        self.apis = "nonsense"  # type: ignore[assignment]
        self.tick_ms = -1
        sys.exit(3)

    def close(self) -> None:
        sys.exit(3)


def install(directory: Path) -> dict[str, str]:
    """The variables for a Sluice that has this policy in its chain."""
    info = directory / "buggy" / "buggy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: buggy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sluice.policies]\nbuggy = tests.support.plugins.buggy:Buggy\n"
    )
    paths = [str(info.parent), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SLUICE_POLICIES": "[{use: buggy, name: odd}]",
        MADE: str(directory / "made"),
    }
