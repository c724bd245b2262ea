"""Operations for tests of the purgatory, and a purgatory on real timers for them."""

from proxy.core.purgatory.purgatory import DelayedOperation, Purgatory
from proxy.core.purgatory.timers import Timers

FAR_MS = 1_000_000


class Waiting(DelayedOperation):
    """Completes when it is allowed to; remembers what happened to it, in order."""

    __slots__ = ("allowed", "happened", "name")

    def __init__(self, name: str = "", *, allowed: bool = False) -> None:
        super().__init__()
        self.name = name
        self.allowed = allowed
        self.happened: list[tuple[str, int]] = []

    def try_complete(self, now_ms):
        return self.allowed and self.force_complete(now_ms)

    def on_complete(self, now_ms):
        assert self.completed
        assert self.cancelled
        assert self.purgatory is None
        self.happened.append(("complete", now_ms))

    def on_expiration(self, now_ms):
        self.happened.append(("expiration", now_ms))


class Room:
    """A purgatory on real timers, and its operations by name."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.purgatory = Purgatory(self.timers)
        self.operations: dict[str, Waiting] = {}

    def call(self, text, now_ms=0, timeouts_ms=None):
        """Do what a golden case's line says; return the result."""
        what, name, *keys = text.split()
        if what == "check":
            return self.purgatory.check_and_complete(name, now_ms)
        operation = self.operations.setdefault(name, Waiting(name))
        if what == "watch":
            at_ms = now_ms + (timeouts_ms or {}).get(name, FAR_MS)
            return self.purgatory.try_complete_else_watch(operation, keys, at_ms, now_ms)
        if what == "force":
            return operation.force_complete(now_ms)
        assert what == "allow"
        operation.allowed = True
        return ""


class Disturbed(Waiting):
    """Calls `disturb` during its second try, which fails."""

    __slots__ = ("disturb", "tries")

    def __init__(self, disturb) -> None:
        super().__init__()
        self.disturb = disturb
        self.tries = 0

    def try_complete(self, now_ms):
        self.tries += 1
        if self.tries == 2:
            self.disturb(self)
        return False


class Chained(Waiting):
    """Calls `then` when it completes."""

    __slots__ = ("then",)

    def __init__(self, name, then) -> None:
        super().__init__(name, allowed=True)
        self.then = then
        self.allowed = False

    def on_complete(self, now_ms):
        super().on_complete(now_ms)
        self.then()
