"""`ask_first`: another service decides which users may create and delete topics.

    - use: ask_first:AskFirst
      config: {url: "http://rights.internal/topics?user="}

The first such request of a user is held until the service has answered, at most five seconds.
Status 200 allows it, 403 refuses it. The answer counts for a minute; any other status is an error,
which refuses for a second.
"""

from __future__ import annotations

from functools import partial
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import msgspec

from sluice import FORWARD, ApiKey, ErrorCode, Forward, Hold, Host, Peer, Policy, Reject, Request

MAX_USERS = 10_000
REFUSED = Reject(ErrorCode.POLICY_VIOLATION, message="the rights service has not allowed it")


class AskFirstConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `AskFirst`."""

    url: str
    """The user's name is appended to it."""


class AskFirst(Policy):
    """Holds CreateTopics and DeleteTopics until a service has answered."""

    Config = AskFirstConfig
    apis = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS})

    def __init__(self, config: AskFirstConfig, host: Host) -> None:
        super().__init__(config, host)
        self._url = config.url
        self._allowed: dict[str, bool | None] = {}  # by user; None: the service is being asked
        self._asked = host.counter("rights_lookups", "Questions to the rights service.", ["result"])

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Hold | Reject:
        """Judge by the answer; ask for it if there is none."""
        user = peer.user
        if user not in self._allowed and len(self._allowed) < MAX_USERS:
            self._allowed[user] = None
            self.host.run_blocking(
                partial(ask, self._url, user), partial(self._on_answer, user), timeout_ms=4_000
            )
        if self._allowed.get(user, False) is None:
            return Hold(5_000, ("ask_first", user), then=REFUSED)
        return FORWARD if self._allowed.get(user) else REFUSED

    def _on_answer(self, user: str, answer: object, now_ms: int) -> None:
        failed = isinstance(answer, Exception)
        if failed:
            self.host.log.warning("no answer", user=user, error=answer)
        self._asked.add(1, "error" if failed else "allowed" if answer else "refused")
        self._allowed[user] = answer is True
        self.host.wake(("ask_first", user))
        forget_ms = now_ms + (1_000 if failed else 60_000)
        self.host.call_at(forget_ms, partial(self._forget, user))

    def _forget(self, user: str, now_ms: int) -> None:
        self._allowed.pop(user, None)


def ask(url: str, user: str) -> bool:
    """Return whether the service allows it. Raises OSError if it cannot be asked."""
    try:
        with urlopen(url + quote(user, safe=""), timeout=3) as reply:  # noqa: S310 - a setting
            return bool(reply.status == 200)
    except HTTPError as error:
        if error.code == 403:
            return False
        raise
