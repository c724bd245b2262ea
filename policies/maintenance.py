"""`maintenance`: pauses writes to a topic, of a user, or all writes, while an operator works on the cluster.

    - use: maintenance
      config:
        hold_ms: 5000                     # a paused write waits this long, then it gets a retriable error
        pauses:
          - {topic: orders}
          - {topic: 'billing.*', user: reports}
        file: /etc/sluice/pauses.yaml     # more pauses; they apply two seconds after the file has changed

Operators add and remove pauses over the admin server, too (`policies.live_changes`). Only Produce requests are paused.
At the end of its wait a write gets REQUEST_TIMED_OUT, which clients retry: they wait instead of failing, until their
own delivery timeout. Reads, commits and administration continue.

The order of a client's writes stays (see `Reject.close`), and its connection too while the pause lasts: all that it has
sent meanwhile is refused. When the pause ends, a connection on which a write was refused ends with its next write: the
client sends all of them again, in order, on a new one.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from policies.api import FORWARD, Forward, Hold, Need, Policy, PolicyConfigError, Reject
from policies.name_patterns import ALL, NamePatterns, pattern_mistake
from policies.validation import Problem, SettingsError, try_convert, with_origin
from policies.verdicts import short_repr
from policies.yaml_text import read_yaml
from wire.apis import ApiKey
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from policies.api import Host, Peer, Request

MAX_FILE_BYTES: Final = 16_384
MAX_LIVE: Final = 1_000
"""The most live pauses."""
PIPELINED_MS: Final = 50
"""Requests that a client sent before it had the error arrive within this time; its retries come later, because every
client backs off for 100 ms."""
IN_FLIGHT_MS: Final = 30_000
"""How long a write that was sent before the client had the error can be on its way: then clients give up on it."""
SHARDS: Final = 64
"""When a pause ends, the connections continue in this many steps, one per millisecond."""
_UNKNOWN_ID = Reject(ErrorCode.UNKNOWN_TOPIC_ID)
_SEND_AGAIN = Reject(ErrorCode.REQUEST_TIMED_OUT, message="the pauses have changed")
"""For the writes of a connection on which one was refused, and for one that was held when all writes were paused: its
topics were not read."""


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Writes that wait: those that fit all of its settings."""

    topic: str | None = None
    """A topic's name, or the beginning of names and `*`. `*` alone pauses all writes, also of topics without a name."""
    user: str | None = None
    """A principal's name; none: every user."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a pause of nothing, and for a `*` that is not at the end."""
        if self.topic is None and self.user is None:
            yield Problem(
                "", "a pause of nothing", "topic, user, or both; topic '*' for all writes"
            )
        if self.topic is not None:
            yield from pattern_mistake("topic", self.topic)


class PauseList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file, YAML or JSON, and of a live change; without the key there are no pauses."""

    pauses: tuple[Pause, ...] = ()


class MaintenanceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the policy."""

    pauses: tuple[Pause, ...] = ()
    """The writes that wait."""
    file: str | None = None
    """A file with more pauses, watched for changes. It must exist."""
    hold_ms: Annotated[int, msgspec.Meta(ge=1, le=20_000)] = 5_000
    """How long a write waits before it gets the error. Clients give up on a connection after 30 seconds."""


class Maintenance(Policy):
    """Holds writes while they are paused, then refuses them with an error that clients retry."""

    Config = MaintenanceConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, MaintenanceConfig):
            raise PolicyConfigError("", f"expected a MaintenanceConfig, got {short_repr(config)}")
        self._config = config
        self._until_ms: dict[int, int] = {}  # by session: when its writes stop waiting
        self._refused: set[int] = set()  # sessions of which a write was refused before this wait
        self._ending_ms: dict[int, int] = {}  # by session that ends with its next write: until when
        self._refusal = Reject(
            ErrorCode.REQUEST_TIMED_OUT, close=False, message="writes are paused for maintenance"
        )
        self._live: tuple[Pause, ...] = ()
        self._of_file = () if config.file is None else self._read_first(config.file)
        self._pause()

    def adopt(self, previous: Policy) -> None:
        """Continue the waits that have begun, and keep the live pauses."""
        if not isinstance(previous, Maintenance):
            return
        before = previous._paused  # noqa: SLF001 - of its own class
        self._until_ms = previous._until_ms  # noqa: SLF001 - as above
        self._refused = previous._refused  # noqa: SLF001 - as above
        self._ending_ms = previous._ending_ms  # noqa: SLF001 - as above
        self._live = previous._live  # noqa: SLF001 - as above
        self._pause()
        if self._paused != before or self._ending_ms:
            self._end_refused(self.host.now_ms())
        self.host.reconsider()

    def live_state(self) -> dict[str, object]:
        """Return the pauses by their origin: `pauses` are the live ones."""
        return {
            "pauses": self._live,
            "settings": self._config.pauses,
            "file": self._of_file,
        }

    def change_live(self, change: Mapping[str, object], now_ms: int) -> None:
        """Replace the live pauses by those of a PauseList. Raises PolicyConfigError if it is none."""
        asked, problems = try_convert(PauseList, dict(change))
        if asked is None or problems:
            first = problems[0]
            raise PolicyConfigError(first.path, f"found {first.found}, expected {first.expected}")
        if len(asked.pauses) > MAX_LIVE:
            raise PolicyConfigError(
                "pauses", f"found {len(asked.pauses)} pauses, expected at most {MAX_LIVE}"
            )
        self._live = asked.pauses
        self._apply(now_ms)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Hold | Reject:
        """Hold a paused write until its connection has waited for `hold_ms`."""
        session = peer.session_id
        refusal = self._judge(request, peer.user)
        if refusal is None:
            return FORWARD if session not in self._ending_ms else _SEND_AGAIN
        if refusal is not self._refusal:
            return refusal
        until_ms = self._until_ms.get(session)
        if until_ms is None or now_ms >= until_ms + PIPELINED_MS:
            if until_ms is not None:
                self._refused.add(session)
            until_ms = self._until_ms[session] = now_ms + self._config.hold_ms
        if now_ms >= until_ms:
            return refusal
        return Hold(until_ms - now_ms, self._key(session % SHARDS), then=refusal)

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Forget the connection."""
        self._until_ms.pop(peer.session_id, None)
        self._refused.discard(peer.session_id)
        self._ending_ms.pop(peer.session_id, None)

    def _judge(self, request: Request, user: str) -> Reject | None:
        paused = [each for each in map(self._paused.get, (None, user)) if each is not None]
        if any(each.everything for each in paused):
            return self._refusal
        if not paused:
            return None
        try:
            topics = request.topics
        except LookupError:
            return _SEND_AGAIN
        for topic in topics:
            if topic.name is None:
                return _UNKNOWN_ID
            if any(each.has(topic.name) for each in paused):
                return self._refusal
        return None

    def _read_first(self, path: str) -> tuple[Pause, ...]:
        try:
            content = self.host.watch_file(path, self._on_file, MAX_FILE_BYTES)
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or str(error)
            raise PolicyConfigError("file", f"{path} cannot be read: {words}") from error
        return read_pauses(content, path)

    def _on_file(self, content: bytes) -> None:
        try:
            pauses = read_pauses(content, str(self._config.file))
        except SettingsError as error:
            problems = "; ".join(map(str, error.problems))
            self.host.log.error("pauses unchanged", problems=problems)  # noqa: TRY400 - no traceback: it is an operator's
            return
        self._of_file = pauses
        self._apply(self.host.now_ms())

    def _apply(self, now_ms: int) -> None:
        """Apply changed pauses, and let the requests that were held be judged again."""
        self._pause()
        self._end_refused(now_ms)
        self.host.reconsider()
        for shard in range(SHARDS):
            self.host.call_at(now_ms + shard, partial(self._wake, self._key(shard)))

    def _end_refused(self, now_ms: int) -> None:
        """Have each connection on which a write was refused end with its next write that no pause holds."""
        waited = {session for session, until_ms in self._until_ms.items() if now_ms >= until_ms}
        for session in waited:
            del self._until_ms[session]
        self._ending_ms |= dict.fromkeys(waited | self._refused, now_ms + IN_FLIGHT_MS)
        self._refused.clear()
        self._choose_apis()
        self.host.call_at(now_ms + IN_FLIGHT_MS, self._forget_ending)

    def _forget_ending(self, now_ms: int) -> None:
        late = [session for session, end_ms in self._ending_ms.items() if now_ms >= end_ms]
        for session in late:
            del self._ending_ms[session]
        self._choose_apis()
        self.host.reconsider()

    def _pause(self) -> None:
        """Find the paused topics of each user, from the pauses of all origins."""
        pauses = (*self._config.pauses, *self._of_file, *self._live)
        self._paused = _by_user(pauses)
        needs_topics = not all(each.everything for each in self._paused.values())
        self.needs = {ApiKey.PRODUCE: Need.TOPICS if needs_topics else Need.HEADER}
        self._choose_apis()
        self.host.log.info("writes paused" if pauses else "no writes paused", pauses=len(pauses))

    def _choose_apis(self) -> None:
        self.apis = frozenset({ApiKey.PRODUCE} if self._paused or self._ending_ms else ())

    def _wake(self, key: Hashable, _: int) -> None:
        self.host.wake(key)

    def _key(self, shard: int) -> Hashable:
        return "maintenance", self.host.name, shard


def read_pauses(content: bytes, path: str) -> tuple[Pause, ...]:
    """Return the pauses of a file's content. Raises SettingsError with every problem, each with its line."""
    data, origins, problems = read_yaml(content, path)
    file = None
    if not problems:
        file, problems = try_convert(PauseList, data)
    if file is None:
        raise SettingsError([with_origin(each, origins) for each in problems])
    return file.pauses


def _by_user(pauses: Iterable[Pause]) -> dict[str | None, NamePatterns]:
    """Return the paused topics of each user; None: of all users."""
    found: defaultdict[str | None, list[str]] = defaultdict(list)
    for pause in pauses:
        found[pause.user].append(pause.topic or ALL)
    return {user: NamePatterns.of(topics) for user, topics in found.items()}
