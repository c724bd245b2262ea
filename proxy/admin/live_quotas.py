"""The quotas in force: which one binds a client, their list, and live changes.

Rules:
- The policy that keeps the quotas judges every change (`policies.quota.alter`), as it does over the Kafka protocol. The
  admin server authenticates its clients, so no principal is checked here.
- Called on the event loop. A change takes effect before the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from proxy.admin.errors import AdminError
from proxy.admin.schemas import QuotaList, QuotaValue
from proxy.shell.driver import nudge
from proxy.telemetry.facts import QuotaEntities

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.api import EffectiveQuota
    from policies.chain import Chain
    from policies.quota import entity
    from policies.quota.alter import Change
    from policies.quota.bucket_status import BucketStatus
    from policies.quota.entity import QuotaEntity
    from policies.quota.sensors import BucketMetrics
    from proxy.core.engine import Engine
    from proxy.reload import Reloader
    from proxy.shell.event_loop import EventLoop


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
            fullest = max(found, key=lambda each: (each.wait_ms, each.used))
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

    def change(
        self,
        user: str | None,
        client_id: str | None,
        limits: dict[str, float | None],
        rev: str | None,
        now_ms: int,
    ) -> QuotaList:
        """Set live quotas of one entity and return all quotas; without `limits` remove its live quotas.

        A limit of None removes that live quota. Raises AdminError: 400 for an invalid change, 404 if no policy keeps
        quotas, 409 with several replicas, 412 if the quotas are not at `rev`, 500 if they cannot be saved.
        """
        from policies.quota.entity import QuotaEntity  # noqa: PLC0415 - loaded only with a quota policy

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
        entity = QuotaEntity(user, client_id)
        changes = _judged(
            policy, entity, limits or dict.fromkeys(policy.quotas.overrides.get(entity, ()))
        )
        try:
            if changes:
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


def _judged(
    policy: LiveQuotaPolicy, entity: QuotaEntity, limits: Mapping[str, float | None]
) -> Sequence[Change]:
    """Return the changes. Raises AdminError (400) if they are invalid."""
    from policies.quota.alter import evaluate  # noqa: PLC0415 - loaded only with a quota policy
    from policies.quota.describe import named_entity  # noqa: PLC0415 - as above
    from wire.client_quotas import Alteration  # noqa: PLC0415 - as above

    alteration = Alteration(named_entity(entity), tuple(limits.items()))
    (judged,) = evaluate([alteration], policy.quotas)
    if judged.message is not None:
        raise AdminError(400, judged.message)
    return judged.changes
