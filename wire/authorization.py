"""What a client must be allowed to do for each request: one table of checks per API, as Kafka's authorizer makes them.

- The facts are Kafka's (`KafkaApis`, `AclApis`, `ControllerApis`, `AuthHelper`; releases 4.3 and 4.4). An API that is
  not in the table is not known: it is refused.
- A line has the checks in Kafka's order: the first that fails decides. `group:READ=30!` asks for READ on each group
  that the request names, refused by code 30. After the code: nothing, only the item is refused; `!`, the whole
  request; `*`, the items by this code and all others by OPERATION_NOT_ATTEMPTED.
- A check of the cluster names an act (`cluster/alter-configs:ALTER_CONFIGS=31`). Acts are finer than Kafka's
  operations: ALTER covers passwords, access rights and moves of partitions at once. No act gives `replicate`.
- `@`: the versions of the request that are checked so. `-`: the API asks for no right.
- `wire.request_layouts` says where a request has the names, and what makes it ask for an act (`InitProducerId` without
  a transactional id, a replica's Fetch, a broker's configs).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.apis import key_named
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wire.apis import Api


class ResourceType(IntEnum):
    """What a right is about; the numbers are Kafka's (`ResourceType`)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What a client does with it; the numbers are Kafka's (`AclOperation`), and those of AuthorizedOperations."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Scope(IntEnum):
    """What is refused if one item is."""

    ITEM = 0
    REQUEST = 1
    ALL_OR_NOTHING = 2
    """The item by its code, all others by OPERATION_NOT_ATTEMPTED."""


class Check(NamedTuple):
    """One right that a request needs: on each item of the kind that it names."""

    kind: ResourceType
    operation: Operation
    code: ErrorCode
    scope: Scope = Scope.ITEM
    act: str = ""
    """Of the cluster: which act."""


class Ask(NamedTuple):
    """One right that one request needs."""

    kind: ResourceType
    name: str | bytes | None
    """Of the cluster: the act. Bytes: the id of a topic whose name is not known. None: of all topics, by a pattern."""
    operation: Operation
    code: ErrorCode
    """Kafka's refusal of it."""


_TABLE: Final = """
Produce                     transactional_id:WRITE=53! topic:WRITE=29
Fetch                       cluster/replicate:CLUSTER_ACTION=29! topic:READ=29
ListOffsets                 topic:DESCRIBE=29
Metadata                    topic:DESCRIBE=29 topic:CREATE=29
OffsetCommit                group:READ=30! topic:READ=29
OffsetFetch                 group:DESCRIBE=30!@0-7 group:DESCRIBE=30@8+ topic:DESCRIBE=29
FindCoordinator             group:DESCRIBE=30!@0-3 group:DESCRIBE=30@4+ transactional_id:DESCRIBE=53!@0-3
                            transactional_id:DESCRIBE=53@4+ cluster/replicate:CLUSTER_ACTION=31!
JoinGroup                   group:READ=30!
Heartbeat                   group:READ=30!
LeaveGroup                  group:READ=30!
SyncGroup                   group:READ=30!
DescribeGroups              group:DESCRIBE=30
ListGroups                  -
SaslHandshake               -
ApiVersions                 -
CreateTopics                topic:CREATE=29
DeleteTopics                topic:DELETE=29
DeleteRecords               topic:DELETE=29
InitProducerId              transactional_id:WRITE=53! cluster/idempotent-write:IDEMPOTENT_WRITE=31!
OffsetForLeaderEpoch        topic:DESCRIBE=29
AddPartitionsToTxn          transactional_id:WRITE=53! topic:WRITE=29*
AddOffsetsToTxn             transactional_id:WRITE=53! group:READ=30!
EndTxn                      transactional_id:WRITE=53!
WriteTxnMarkers             cluster/abort-transactions:ALTER=31!
TxnOffsetCommit             transactional_id:WRITE=53! group:READ=30! topic:READ=29
DescribeAcls                cluster/describe-acls:DESCRIBE=31!
CreateAcls                  cluster/alter-acls:ALTER=31!
DeleteAcls                  cluster/alter-acls:ALTER=31!
DescribeConfigs             topic:DESCRIBE_CONFIGS=29 group:DESCRIBE_CONFIGS=30
                            cluster/describe-configs:DESCRIBE_CONFIGS=31
AlterConfigs                topic:ALTER_CONFIGS=29 group:ALTER_CONFIGS=30
                            cluster/alter-configs:ALTER_CONFIGS=31
AlterReplicaLogDirs         cluster/move-partitions:ALTER=31!
DescribeLogDirs             cluster/describe:DESCRIBE=31!
SaslAuthenticate            -
CreatePartitions            topic:ALTER=29
CreateDelegationToken       cluster/tokens:CREATE_TOKENS=65!
RenewDelegationToken        cluster/tokens:CREATE_TOKENS=63!
ExpireDelegationToken       cluster/tokens:CREATE_TOKENS=63!
DescribeDelegationToken     cluster/tokens:DESCRIBE_TOKENS=65!
DeleteGroups                group:DELETE=30
ElectLeaders                cluster/move-partitions:ALTER=31!
IncrementalAlterConfigs     topic:ALTER_CONFIGS=29 group:ALTER_CONFIGS=30
                            cluster/alter-configs:ALTER_CONFIGS=31
AlterPartitionReassignments cluster/move-partitions:ALTER=31!
ListPartitionReassignments  cluster/describe:DESCRIBE=31!
OffsetDelete                group:DELETE=30! topic:READ=29
DescribeClientQuotas        cluster/describe-quotas:DESCRIBE_CONFIGS=31!
AlterClientQuotas           cluster/alter-quotas:ALTER_CONFIGS=31!
DescribeUserScramCredentials cluster/describe-users:DESCRIBE=31!
AlterUserScramCredentials   cluster/alter-users:ALTER=31!
DescribeQuorum              cluster/describe:DESCRIBE=31!
UpdateFeatures              cluster/features:ALTER=31!
DescribeCluster             -
DescribeProducers           topic:READ=29
UnregisterBroker            cluster/nodes:ALTER=31!
DescribeTransactions        transactional_id:DESCRIBE=53
ListTransactions            -
ConsumerGroupHeartbeat      group:READ=30! topic:DESCRIBE=29!
ConsumerGroupDescribe       group:DESCRIBE=30
GetTelemetrySubscriptions   -
PushTelemetry               -
ListConfigResources         cluster/describe-configs:DESCRIBE_CONFIGS=31!
DescribeTopicPartitions     topic:DESCRIBE=29
ShareGroupHeartbeat         group:READ=30! topic:DESCRIBE=29!
ShareGroupDescribe          group:DESCRIBE=30
ShareFetch                  group:READ=30! topic:READ=29
ShareAcknowledge            group:READ=30! topic:READ=29
AddRaftVoter                cluster/nodes:ALTER=31!
RemoveRaftVoter             cluster/nodes:ALTER=31!
StreamsGroupHeartbeat       group:READ=30! topic:DESCRIBE=29! topic:CREATE=29!
StreamsGroupDescribe        group:DESCRIBE=30
DescribeShareGroupOffsets   group:DESCRIBE=30 topic:DESCRIBE=29
AlterShareGroupOffsets      group:READ=30! topic:READ=29
DeleteShareGroupOffsets     group:DELETE=30! topic:READ=29
StreamsGroupTopologyDescriptionUpdate group:READ=30!
UnregisterController        cluster/nodes:ALTER=31!
"""

_SCOPES: Final = {"": Scope.ITEM, "!": Scope.REQUEST, "*": Scope.ALL_OR_NOTHING}


def _check(text: str) -> Check:
    """Parse `kind[/act]:OPERATION=code[!*]`."""
    what, _, refusal = text.partition("=")
    kind, _, operation = what.partition(":")
    kind, _, act = kind.partition("/")
    code = refusal.rstrip("!*")
    scope = _SCOPES[refusal[len(code) :]]
    return Check(ResourceType[kind.upper()], Operation[operation], ErrorCode(int(code)), scope, act)


def _in_range(version: int, versions: str) -> bool:
    first, dash, last = versions.rstrip("+").partition("-")
    return not first or int(first) <= version <= int(
        last if dash else 32_767 if versions.endswith("+") else first
    )


def _read_table() -> Iterator[tuple[int, tuple[tuple[Check, str], ...]]]:
    for line in _TABLE.strip().replace("\n ", " ").splitlines():
        name, *texts = line.split()
        parted = (each.partition("@") for each in texts if each != "-")
        yield key_named(name), tuple((_check(check), versions) for check, _, versions in parted)


_CHECKS: Final = dict(_read_table())
_FOUND: Final[dict[int, tuple[Check, ...]]] = {}

AUTHORIZED: Final = frozenset(_CHECKS)
"""The APIs of which it is known what a client must be allowed to do. No other may pass a guard."""

ACTS: Final = tuple(
    sorted(
        {check.act for checks in _CHECKS.values() for check, _ in checks if check.act}
        - {"replicate"}
    )
)
"""The acts on the cluster that a rule can allow."""


def checks_of(api: Api) -> tuple[Check, ...]:
    """Return the rights that requests of this API and version may need, in Kafka's order.

    Raises LookupError for an API that is not in AUTHORIZED.
    """
    word = api.key << 16 | api.version
    found = _FOUND.get(word)
    if found is None:
        found = _FOUND[word] = tuple(
            check for check, versions in _CHECKS[api.key] if _in_range(api.version, versions)
        )
    return found
