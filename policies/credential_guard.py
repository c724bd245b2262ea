"""The guard of Sluice's own credentials: what a broker would judge by them is refused to clients.

With `upstream.sasl`, or a certificate in `upstream.tls`, the broker sees one user: Sluice's. A delegation token would
be a token of that user, a changed password would be its password, an access right would be given in its name. So
clients may not make, show or change credentials, access rights and the members of the cluster, unless the operator
names the API.

- It is the last entry of the chain, so it sees what would reach a broker. A request that an earlier policy answers
  (`quota`: client quotas) is not refused. A refused request counts for quotas, as in Kafka.
- AlterConfigs and IncrementalAlterConfigs pass for topics and groups. With one resource of another kind the whole
  request is refused: brokers, their loggers and client metrics, and a kind that Kafka gets later.
- Refused APIs are not in ApiVersions, but those two.
- Others pass, because they are about the topics and groups that clients use, or only describe: replicas are moved and
  leaders elected by topic; DescribeConfigs shows no secret of a broker, because Kafka returns none of them. With the
  right ClusterAction a client could act as a broker (Fetch as a follower): Sluice's user must not have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import FORWARD, Need, Policy, Reject
from policies.hooks import Entry
from wire.apis import OFFERED, ApiKey, Concern, concern_of, name_of
from wire.config_resources import GROUP, TOPIC, altered_kinds
from wire.errors import ErrorCode, WireError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from policies.api import Forward, Peer, Request

NAME: Final = "credential_guard"
"""The name of its entry, which no other entry may have."""
_GUARDED: Final = frozenset(
    {Concern.CREDENTIALS, Concern.CLIENT_QUOTAS, Concern.CLUSTER, Concern.BROKERS}
)
_PASSING_KINDS: Final = frozenset({TOPIC, GROUP})
_REFUSED: Final = Reject(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    message="the broker would judge it by Sluice's own credentials (forward_credential_apis)",
)
_REFUSED_KIND: Final = Reject(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    message="only configs of topics and groups may be changed with Sluice's own credentials "
    "(forward_credential_apis)",
)
_MALFORMED: Final = Reject(ErrorCode.INVALID_REQUEST, close=True)


def guarded_apis() -> dict[str, int]:
    """Return name and key of each API that clients may be offered and that is refused, in part or as a whole."""
    guarded = {*_GUARDED, Concern.CONFIGS}
    return {name_of(key): key for key in sorted(OFFERED) if concern_of(key) in guarded}


def with_guard(entries: Sequence[Entry], forwarded: Collection[int] | None) -> list[Entry]:
    """Return these entries of a chain and the guard after them.

    `forwarded` are API keys that it lets through; None: Sluice has no credentials, and needs no guard.
    """
    if forwarded is None:
        return list(entries)
    answered = frozenset[int]().union(
        *(entry.policy.answers for entry in entries if entry.mode == "enforce")
    )
    return [*entries, Entry(NAME, CredentialGuard(forwarded, answered))]


class CredentialGuard(Policy):
    """Refuses the APIs that concern credentials and the cluster, but those in `forwarded`.

    `answered`: those that another entry answers, which stay in ApiVersions.
    """

    Config = type(None)

    def __init__(
        self, forwarded: Collection[int] = (), answered: frozenset[int] = frozenset()
    ) -> None:
        refused = {int(key) for key in ApiKey if concern_of(key) in _GUARDED}
        configs = {int(key) for key in ApiKey if concern_of(key) is Concern.CONFIGS}
        self.apis = frozenset(refused | configs) - frozenset(forwarded)
        self.max_versions = dict.fromkeys((refused - answered) & self.apis & OFFERED.keys())
        self._configs = configs & self.apis
        self.needs = dict.fromkeys(self._configs, Need.BODY)
        self.response_apis = frozenset()

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward | Reject:
        """Refuse the request, unless it changes configs of topics and groups alone."""
        if request.api_key not in self._configs:
            return _REFUSED
        try:
            kinds = altered_kinds(request.api, request.body or b"")
        except WireError:
            return _MALFORMED
        return FORWARD if kinds <= _PASSING_KINDS else _REFUSED_KIND
