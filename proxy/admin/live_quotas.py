"""The quotas in force: which one binds a client, their list, and live changes.

Rules:
- The policy that keeps the quotas judges every change (`policies.quota.alter`), as it does over the Kafka protocol. The
  admin server authenticates its clients, so no principal is checked here.
- Called on the event loop. A change takes effect before the next step.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from proxy.admin.errors import AdminError
from proxy.admin.schemas import BucketUsage, QuotaChange, QuotaList, QuotaUsage, QuotaValue
from proxy.shell.driver import nudge
from proxy.telemetry.facts import QuotaEntities

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.api import EffectiveQuota
    from policies.chain import Chain
    from policies.quota import entity
    from policies.quota.alter import Change
    from policies.quota.bucket_status import BucketStatus
    from policies.quota.sensors import BucketMetrics
    from proxy.core.engine import Engine
    from proxy.reload import Reloader
    from proxy.shell.event_loop import EventLoop


MAX_REFUSALS = 10
"""Refused entities that one answer names."""
MAX_USAGE = 1000
"""Buckets that one answer lists."""


class BindingLimit(NamedTuple):
    """The limit that stops a client first, and the state of its bucket, which other clients may share."""

    entity: str
    quota: str
    limit: float
    """Per second."""
    rate: float | None = None
    """Per second, of all clients that share the bucket; None: the policy does not tell."""
    wait_ms: float = 0.0
    waiting: int = 0
    used: float | None = None
    """From 0 to 1."""


@runtime_checkable
class LiveQuotaPolicy(Protocol):
    """A policy whose quotas can be changed live."""

    config: object
    quotas: entity.ClientQuotas

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        """Save the changes, then apply them. Raises OSError if they cannot be saved; then nothing has changed."""

    def usage(self, now_ms: int) -> Iterable[BucketMetrics]:
        """Return a row for each bucket in use; clients that share a bucket may have several."""

    def bucket_statuses(self, user: str, client_id: str, now_ms: int) -> Sequence[BucketStatus]:
        """Return the state of each bucket that this client draws on."""


class LiveQuotas:
    """Lists and changes the quotas of the first policy in the chain that keeps any."""

    def __init__(self, engine: Engine, event_loop: EventLoop, reloader: Reloader) -> None:
        self._engine = engine
        self._event_loop = event_loop
        self._reloader = reloader
        self._enforcing_of: Chain | None = None
        self._enforcing: list[LiveQuotaPolicy] = []

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        """Return the request quota of this client from the first policy that has one."""
        return self._engine.chain.effective_quota(user, client_id)

    def binding_limit(self, user: str, client_id: str, now_ms: int) -> BindingLimit | None:
        """Return the client's fullest bucket of all policies that enforce quotas.

        Without such a bucket: the request rate of another policy (`effective_quota`), or None.
        """
        chain = self._engine.chain
        if self._enforcing_of is not chain:  # kept: an isinstance of a protocol is slow
            self._enforcing_of = chain
            self._enforcing = [
                each.policy
                for each in chain.entries
                if each.mode == "enforce" and isinstance(each.policy, LiveQuotaPolicy)
            ]
        found = [
            standing
            for policy in self._enforcing
            for standing in policy.bucket_statuses(user, client_id, now_ms)
        ]
        if found:
            fullest = max(found, key=_fullness)
            return BindingLimit(*fullest, fullest.used)
        held = self.effective_quota(user, client_id)
        return None if held is None else BindingLimit(held.entity, "request_rate", held.rate)

    def entities(self, now_ms: int) -> Iterator[QuotaEntities]:
        """Yield the buckets of each policy that keeps quotas."""
        for entry in self._engine.chain.entries:
            if isinstance(entry.policy, LiveQuotaPolicy):
                yield QuotaEntities(entry.name, entry.policy.usage(now_ms))

    def listed(self) -> QuotaList:
        """Return every quota. Raises AdminError (404) if no policy keeps any."""
        return self._listed(self._policy())

    def usage(self, now_ms: int) -> QuotaUsage:
        """Return the MAX_USAGE buckets that use most of their limit. Raises AdminError (404) as `listed` does."""
        busiest: dict[tuple[str, str, str], BucketMetrics] = {}
        for row in self._policy().usage(now_ms):
            key = row.user, row.client_id, row.key
            if key not in busiest or _used(row) > _used(busiest[key]):
                busiest[key] = row
        return QuotaUsage(
            [
                BucketUsage(row.user or None, row.client_id or None, *row[2:])
                for row in nlargest(MAX_USAGE, busiest.values(), key=_used)
            ],
            len(busiest),
        )

    def change(
        self,
        user: str | None,
        client_id: str | None,
        limits: dict[str, float | None],
        rev: str | None,
        now_ms: int,
    ) -> QuotaList:
        """Set live quotas of one entity and return all quotas; without `limits` remove its live quotas.

        A limit of None removes that live quota. Raises AdminError, see `alter`.
        """
        if not limits:
            from policies.quota.entity import QuotaEntity  # noqa: PLC0415 - loaded only with a quota policy

            overrides = self._policy().quotas.overrides
            limits = dict.fromkeys(overrides.get(QuotaEntity(user, client_id), ()))
        return self.alter([QuotaChange(limits, user, client_id)], rev, now_ms)

    def alter(
        self, asked: Sequence[QuotaChange], rev: str | None, now_ms: int, *, dry_run: bool = False
    ) -> QuotaList:
        """Change the live quotas of several entities, all or none, and return all quotas.

        With `dry_run` the changes are only checked. Raises AdminError: 400 for an invalid change, 404 if no policy
        keeps quotas, 409 with several replicas, 412 if the quotas are not at `rev`, 500 if they cannot be saved.
        """
        policy = self._policy()
        if rev is not None and rev != self._rev(policy):
            message = f"quotas changed since revision {rev} (If-Match): now {self._rev(policy)}"
            raise AdminError(412, message)
        replicas = getattr(policy.config, "replicas", 1)
        if replicas > 1:
            message = (
                f"replicas is {replicas}: a live change reaches one replica only, "
                "so change the configuration of all replicas"
            )
            raise AdminError(409, message)
        changes = _judged(policy, asked)
        try:
            if changes and not dry_run:
                policy.change(changes, now_ms)
        except OSError as error:
            message = f"nothing was changed, because the change cannot be saved: {error.strerror}"
            raise AdminError(500, message) from error
        nudge(self._event_loop)
        return self._listed(policy)

    def _policy(self) -> LiveQuotaPolicy:
        for entry in self._engine.chain.entries:
            if isinstance(entry.policy, LiveQuotaPolicy):
                return entry.policy
        raise AdminError(404, "no policy in the chain has quotas")

    def _rev(self, policy: LiveQuotaPolicy) -> str:
        return f"{self._reloader.tally.policies_ms:x}-{policy.quotas.rev}"

    def _listed(self, policy: LiveQuotaPolicy) -> QuotaList:
        return QuotaList(
            self._rev(policy),
            [
                QuotaValue(
                    each.entity.user, each.entity.client_id, each.key, each.value, each.origin
                )
                for each in policy.quotas
            ],
        )


def _used(row: BucketMetrics) -> float:
    return row.rate / row.limit


def _fullness(standing: BucketStatus) -> tuple[float, float]:
    return standing.wait_ms, standing.used


def _judged(policy: LiveQuotaPolicy, asked: Sequence[QuotaChange]) -> list[Change]:
    """Return the changes. Raises AdminError (400) if one of them is invalid."""
    from policies.quota.alter import evaluate  # noqa: PLC0415 - loaded only with a quota policy
    from policies.quota.entity import DEFAULT_NAME  # noqa: PLC0415 - as above
    from wire.client_quotas import CLIENT_ID, USER, Alteration  # noqa: PLC0415 - as above

    entries = []
    for each in asked:
        named = ((USER, each.user), (CLIENT_ID, each.client_id))
        whose = tuple(
            (kind, None if name == DEFAULT_NAME else name)
            for kind, name in named
            if name is not None
        )
        entries.append(Alteration(whose, tuple(each.limits.items())))
    judged = evaluate(entries, policy.quotas)
    refused = [each for each in judged if each.message is not None]
    if refused:
        words = [
            f"{dict(each.entity)}: {each.message}" if len(entries) > 1 else str(each.message)
            for each in refused[:MAX_REFUSALS]
        ]
        more = len(refused) - len(words)
        raise AdminError(400, "; ".join(words) + (f"; and {more} more" if more else ""))
    return [change for each in judged for change in each.changes]
