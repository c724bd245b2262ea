"""The tools of a policy for itself: log, metrics, time, slow work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from policies.file_watch import MAX_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.custom_metrics import PolicyCounter, PolicyHistogram
    from policies.policy_log import PolicyLog

T = TypeVar("T")
BLOCKING_TIMEOUT_MS: Final = 10_000


class TooManyCallsError(Exception):
    """Too many calls of `run_blocking` of this entry wait for a thread; this one was not made."""

    __module__ = "sluice"  # where others import it: a traceback says so


class HostTools(Protocol):
    """The tools of a policy for itself; they decide nothing about requests."""

    @property
    def log(self) -> PolicyLog:
        """The entry's log: `host.log.info("denied", topic=name)`. The event is `policy_message`."""

    def now_ms(self) -> int:
        """Return the time of the current step in ms since the epoch; 0 in `__init__`."""

    def counter(self, name: str, help_text: str, labels: Iterable[str] = ()) -> PolicyCounter:
        """Return a counter, on the page of metrics as `sluice_custom_NAME_total` with the label `policy`.

        Only `__init__` may call it. Raises ValueError if the definition is wrong.
        """

    def histogram(
        self, name: str, help_text: str, buckets: Iterable[float], labels: Iterable[str] = ()
    ) -> PolicyHistogram:
        """Return a histogram, `sluice_custom_NAME`, with these upper bounds. As `counter`."""

    def run_blocking(
        self,
        work: Callable[[], T],
        then: Callable[[T | Exception, int], None],
        timeout_ms: int = BLOCKING_TIMEOUT_MS,
    ) -> Callable[[], None]:
        """Call `work` in a thread, and then `then(result, now_ms)` between two requests.

        The result is what `work` returns or the exception that it raises; a TimeoutError after `timeout_ms`, counted
        from this call (the thread is left alone then); or a TooManyCallsError. `work` may use nothing of the policy
        that changes, and nothing of the host. Raises RuntimeError in `__init__`, TypeError for a wrong argument.

        Returns a function that gives the call up, for a client that has left: work that has not begun is not done, and
        `then` is not called.
        """

    def watch_file(
        self, path: str, on_change: Callable[[bytes], None], max_bytes: int = MAX_FILE_BYTES
    ) -> bytes:
        """Return the content of a regular file, and call `on_change(content)` between two requests when it has changed.

        Only `__init__` may call it. A change is seen after two seconds at most, once the file has stayed the same for a
        second. If the file cannot be read later, that is logged and the last content counts. `Host.read` is for a
        file whose change makes the policy again. Raises OSError if the file cannot be read now, or has more than
        `max_bytes`.
        """
