"""What a client must be allowed to do for each request: one table of checks per API, as Kafka's authorizer makes them.

- The facts are Kafka's (`KafkaApis`, `AclApis`, `ControllerApis`, `AuthHelper`; releases 4.3 and 4.4). A version that
  is not in the table is not known: a guard refuses it.
- A line has the versions, and the checks in Kafka's order: the first that fails decides. `group:READ=30!` asks for
  READ on each group that the request names, refused by code 30. After the code: nothing, only the item is refused;
  `!`, the whole request; `*`, the items by this code and all others by OPERATION_NOT_ATTEMPTED.
- A check of the cluster names an act (`cluster/alter-configs:ALTER_CONFIGS=31`). Acts are finer than Kafka's
  operations: ALTER covers passwords, access rights and moves of partitions at once. No rule gives `replicate`: it is
  for brokers. A version that asks for nothing else is offered to no client (AddPartitionsToTxn v4).
- `topic:CREATE` is about the topics that the request creates, or lets the broker create.
- `@`: the versions of the request that are checked so. `-`: the API asks for no right.
- `wire.request_layouts` says where a request has the names, and what makes it ask for an act (`InitProducerId` without
  a transactional id, a replica's Fetch, a broker's configs).
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.apis import OFFERED, find, key_named
from wire.errors import ErrorCode
from wire.request_layouts import in_range

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
Produce                               0-13 transactional_id:WRITE=53! topic:WRITE=29
Fetch                                 0-18 cluster/replicate:CLUSTER_ACTION=29! topic:READ=29
ListOffsets                           0-11 topic:DESCRIBE=29
Metadata                              0-13 topic:DESCRIBE=29 topic:CREATE=29
OffsetCommit                          0-10 group:READ=30! topic:READ=29
OffsetFetch                           0-10 group:DESCRIBE=30!@0-7 group:DESCRIBE=30@8+ topic:DESCRIBE=29
FindCoordinator                       0-6  group:DESCRIBE=30!@0-3 group:DESCRIBE=30@4+
                                           transactional_id:DESCRIBE=53!@1-3
                                           transactional_id:DESCRIBE=53@4+
                                           cluster/replicate:CLUSTER_ACTION=31!@1+
JoinGroup                             0-9  group:READ=30!
Heartbeat                             0-4  group:READ=30!
LeaveGroup                            0-5  group:READ=30!
SyncGroup                             0-5  group:READ=30!
DescribeGroups                        0-6  group:DESCRIBE=30
ListGroups                            0-5  -
SaslHandshake                         1    -
ApiVersions                           0-5  -
CreateTopics                          0-7  topic:CREATE=29
DeleteTopics                          0-6  topic:DELETE=29
DeleteRecords                         0-2  topic:DELETE=29
InitProducerId                        0-5  transactional_id:WRITE=53!
                                           cluster/idempotent-write:IDEMPOTENT_WRITE=31!
OffsetForLeaderEpoch                  0-4  topic:DESCRIBE=29
AddPartitionsToTxn                    0-5  transactional_id:WRITE=53!@0-3 topic:WRITE=29*@0-3
                                           cluster/replicate:CLUSTER_ACTION=31!@4+
AddOffsetsToTxn                       0-4  transactional_id:WRITE=53! group:READ=30!
EndTxn                                0-5  transactional_id:WRITE=53!
WriteTxnMarkers                       0-2  cluster/abort-transactions:ALTER=31!
TxnOffsetCommit                       0-6  transactional_id:WRITE=53! group:READ=30! topic:READ=29
DescribeAcls                          0-3  cluster/describe-acls:DESCRIBE=31!
CreateAcls                            0-3  cluster/alter-acls:ALTER=31!
DeleteAcls                            0-3  cluster/alter-acls:ALTER=31!
DescribeConfigs                       0-4  topic:DESCRIBE_CONFIGS=29 group:DESCRIBE_CONFIGS=30
                                           cluster/describe-configs:DESCRIBE_CONFIGS=31
AlterConfigs                          0-2  topic:ALTER_CONFIGS=29 group:ALTER_CONFIGS=30
                                           cluster/alter-configs:ALTER_CONFIGS=31
AlterReplicaLogDirs                   0-2  cluster/move-partitions:ALTER=31!
DescribeLogDirs                       0-5  cluster/describe:DESCRIBE=31!
SaslAuthenticate                      0-2  -
CreatePartitions                      0-3  topic:ALTER=29
CreateDelegationToken                 0-3  cluster/tokens:CREATE_TOKENS=65!
RenewDelegationToken                  0-2  cluster/tokens:CREATE_TOKENS=63!
ExpireDelegationToken                 0-2  cluster/tokens:CREATE_TOKENS=63!
DescribeDelegationToken               0-3  cluster/tokens:DESCRIBE_TOKENS=65!
DeleteGroups                          0-3  group:DELETE=30
ElectLeaders                          0-2  cluster/move-partitions:ALTER=31!
IncrementalAlterConfigs               0-1  topic:ALTER_CONFIGS=29 group:ALTER_CONFIGS=30
                                           cluster/alter-configs:ALTER_CONFIGS=31
AlterPartitionReassignments           0-1  cluster/move-partitions:ALTER=31!
ListPartitionReassignments            0    cluster/describe:DESCRIBE=31!
OffsetDelete                          0    group:DELETE=30! topic:READ=29
DescribeClientQuotas                  0-1  cluster/describe-quotas:DESCRIBE_CONFIGS=31!
AlterClientQuotas                     0-1  cluster/alter-quotas:ALTER_CONFIGS=31!
DescribeUserScramCredentials          0    cluster/describe-users:DESCRIBE=31!
AlterUserScramCredentials             0    cluster/alter-users:ALTER=31!
DescribeQuorum                        0-2  cluster/describe:DESCRIBE=31!
UpdateFeatures                        0-2  cluster/features:ALTER=31!
DescribeCluster                       0-2  -
DescribeProducers                     0    topic:READ=29
UnregisterBroker                      0    cluster/nodes:ALTER=31!
DescribeTransactions                  0    transactional_id:DESCRIBE=53
ListTransactions                      0-2  -
ConsumerGroupHeartbeat                0-1  group:READ=30! topic:DESCRIBE=29!
ConsumerGroupDescribe                 0-1  group:DESCRIBE=30
GetTelemetrySubscriptions             0    -
PushTelemetry                         0    -
ListConfigResources                   0-1  cluster/describe-configs:DESCRIBE_CONFIGS=31!
DescribeTopicPartitions               0    topic:DESCRIBE=29
ShareGroupHeartbeat                   0-1  group:READ=30! topic:DESCRIBE=29!
ShareGroupDescribe                    0-1  group:DESCRIBE=30
ShareFetch                            0-2  group:READ=30! topic:READ=29
ShareAcknowledge                      0-2  group:READ=30! topic:READ=29
AddRaftVoter                          0-1  cluster/nodes:ALTER=31!
RemoveRaftVoter                       0    cluster/nodes:ALTER=31!
StreamsGroupHeartbeat                 0-1  group:READ=30! topic:DESCRIBE=29! topic:CREATE=29!
StreamsGroupDescribe                  0-1  group:DESCRIBE=30
DescribeShareGroupOffsets             0-1  group:DESCRIBE=30 topic:DESCRIBE=29
AlterShareGroupOffsets                0    group:READ=30! topic:READ=29
DeleteShareGroupOffsets               0    group:DELETE=30! topic:READ=29
StreamsGroupTopologyDescriptionUpdate 0    group:READ=30!
UnregisterController                  0    cluster/nodes:ALTER=31!
"""

REPLICATE: Final = "replicate"
_SCOPES: Final = {"": Scope.ITEM, "!": Scope.REQUEST, "*": Scope.ALL_OR_NOTHING}


def _check(text: str) -> Check:
    """Parse `kind[/act]:OPERATION=code[!*]`."""
    what, _, refusal = text.partition("=")
    kind, _, operation = what.partition(":")
    kind, _, act = kind.partition("/")
    code = refusal.rstrip("!*")
    scope = _SCOPES[refusal[len(code) :]]
    return Check(ResourceType[kind.upper()], Operation[operation], ErrorCode(int(code)), scope, act)


def _read_table() -> Iterator[tuple[int, tuple[str, tuple[tuple[Check, str], ...]]]]:
    for line in _TABLE.strip().replace("\n ", " ").splitlines():
        name, versions, *texts = line.split()
        parted = (each.partition("@") for each in texts if each != "-")
        yield key_named(name), (versions, tuple((_check(text), since) for text, _, since in parted))


_CHECKS: Final = dict(_read_table())
_FOUND: Final[dict[int, tuple[Check, ...] | None]] = {}

AUTHORIZED: Final = frozenset(_CHECKS)
"""The APIs of which it is known what a client must be allowed to do. No other may pass a guard."""

RESOURCE_APIS: Final = frozenset(key for key, (_, checks) in _CHECKS.items() if checks)
"""The APIs whose requests name resources: topics, groups, transactional ids, or the cluster. Need.TOPICS reads them."""

ACTS: Final = tuple(
    sorted(
        {check.act for _, checks in _CHECKS.values() for check, _ in checks if check.act}
        - {REPLICATE}
    )
)
"""The acts on the cluster that a rule can allow."""


def is_authorized(api: Api) -> bool:
    """Return whether it is known what a client must be allowed to do for this API and version."""
    return _checks(api) is not None


def authorized_versions(api_key: int) -> str:
    """Return the versions (`0-13`) in the line of an API. Raises LookupError for one that is not in AUTHORIZED."""
    return _CHECKS[api_key][0]


def checks_of(api: Api) -> tuple[Check, ...]:
    """Return the rights that requests of this API and version may need, in Kafka's order.

    Raises LookupError unless `is_authorized`.
    """
    found = _checks(api)
    if found is None:
        raise LookupError(f"the rights that {api.name} v{api.version} needs are not known")
    return found


def act_of(api: Api) -> str:
    """Return the act on the cluster that requests of this API and version may ask for; empty if there is none."""
    return next((check.act for check in _checks(api) or () if check.act), "")


def _checks(api: Api) -> tuple[Check, ...] | None:
    word = api.key << 16 | api.version
    if word not in _FOUND:
        line = _CHECKS.get(api.key)
        _FOUND[word] = (
            tuple(check for check, since in line[1] if in_range(api.version, since))
            if line is not None and in_range(api.version, line[0])
            else None
        )
    return _FOUND[word]


def _caps() -> Iterator[tuple[int, int | None]]:
    for key, (lowest, highest) in OFFERED.items():
        versions = range(lowest, highest + 1)
        found = [each for each in versions if (api := find(key, each)) and _is_for_clients(api)]
        if highest not in found:
            yield key, max(found, default=None)


def _is_for_clients(api: Api) -> bool:
    checks = _checks(api)
    return checks is not None and [check.act for check in checks] != [REPLICATE]


MAX_VERSIONS: Final = MappingProxyType(dict(_caps()))
"""The newest version of an API that a guard may offer, where Sluice offers newer ones; None: the API is not offered."""
