"""What the fields of a message carry, and which of them a release must not add unseen.

- A field's subject follows from its `entityType`, its type or its name.
- A field that looks like an address is one of a broker unless this module says otherwise, with the reason. A new one is
  *undecided* until it is in a table here: as an address that `wire.addresses` rewrites, or as none of a broker.
- So is a field of an `entityType` that is not in `ENTITIES`: no one has asked yet what a policy must know of it. And so
  is a name of a topic, group or transactional id in a tagged field, which `wire.request_layouts` steps over.
- A version that `wire.apis` has and does not offer is decided.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.support.releases.definitions import FIXED_BYTES
from wire.apis import find, known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.releases.definitions import Field, Message, Release

ENTITIES = {
    "topicName": "topic",
    "groupId": "group",
    "transactionalId": "transactional id",
    "producerId": "",
    "brokerId": "",
}
"""Kafka's entity types that are known, and the subject that each makes; empty for those that Sluice passes on."""

_NAMES = {
    "ThrottleTimeMs": "throttle",
    "Acks": "acks",
    "TopicId": "topic id",
    "TopicIds": "topic id",
}
_TIMEOUT = re.compile(r"(Timeout|MaxWait)Ms$", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ADDRESS_WORDS = frozenset(
    {
        *("addr", "address", "addresses", "bootstrap", "dns", "endpoint", "endpoints", "fqdn"),
        *("host", "hostname", "hostnames", "hosts", "ip", "ips", "listener", "listeners"),
        *("port", "ports", "server", "servers", "uri", "uris", "url", "urls"),
    }
)
_HOST_WORDS = frozenset({"host", "hostname"})
_TOLD = re.compile(r"\bhosts?\b|\bhost ?names?\b|\bports?\b|\baddress|\burls?\b", re.IGNORECASE)
"""What Kafka's description of a text says if it may be an address."""
_NO_ADDRESS = frozenset({"bool", "int8", "int16", "int64", "float64", "uuid"})
"""Types that hold neither a name, nor a port, nor an IPv4 address."""
_NO_ADDRESS_ENDINGS = ("Epoch", "Assignor")

REWRITTEN = {
    "Produce": ("NodeEndpoints/Host",),
    "Fetch": ("NodeEndpoints/Host",),
    "Metadata": ("Brokers/Host",),
    "FindCoordinator": ("Host", "Coordinators/Host"),
    "DescribeQuorum": ("Nodes/Listeners/Host",),
    "DescribeCluster": ("Brokers/Host",),
    "ShareFetch": ("NodeEndpoints/Host",),
    "ShareAcknowledge": ("NodeEndpoints/Host",),
}
"""The addresses in replies that `wire.addresses` rewrites, by API."""

OF_NO_BROKER = {
    "ACLs name clients' hosts": (
        *("CreateAcls/Creations/Host", "DeleteAcls/Filters/HostFilter", "DescribeAcls/HostFilter"),
        *("DeleteAcls/FilterResults/MatchingAcls/Host", "DescribeAcls/Resources/Acls/Host"),
    ),
    "the address of a group's member": (
        "DescribeGroups/Groups/Members/ClientHost",
        "ConsumerGroupDescribe/Groups/Members/ClientHost",
        "ShareGroupDescribe/Groups/Members/ClientHost",
        "StreamsGroupDescribe/Groups/Members/ClientHost",
    ),
    "where a Streams application answers queries (KIP-1071)": (
        *("StreamsGroupHeartbeat/UserEndpoint", "StreamsGroupHeartbeat/PartitionsByUserEndpoint"),
        "StreamsGroupDescribe/Groups/Members/UserEndpoint",
    ),
    "an administrator tells the cluster where a controller is": ("AddRaftVoter/Listeners",),
}
"""Fields that look like an address and are none of a broker that a client could dial, by the reason. A struct stands
for all that is in it."""
_OF_NO_BROKER = frozenset(path for paths in OF_NO_BROKER.values() for path in paths)


class Undecided(NamedTuple):
    """A field that no table knows."""

    path: str
    """With the message: `FetchResponse v16+: NodeEndpoints/Host`."""
    why: str


def subject_of(field: Field) -> str:
    """Return what a field carries, in a word or two; empty if it is of no interest to Sluice."""
    if field.entity:
        return ENTITIES.get(field.entity, f"entityType {field.entity}")
    if field.type == "records":
        return "records"
    if looks_like_address(field):
        return "address"
    if _TIMEOUT.search(field.name):
        return "timeout"
    return _NAMES.get(field.name, "")


def looks_like_address(field: Field) -> bool:
    """Return whether a field may be an address, or a part of one, by its name, type and description."""
    is_number = field.type in _NO_ADDRESS and not field.is_array
    if is_number or field.name.endswith(_NO_ADDRESS_ENDINGS):
        return False
    is_told = field.type in {"string", "bytes"} and _TOLD.search(field.about) is not None
    return is_told or bool(_words(field.name) & _ADDRESS_WORDS)


def address_paths(message: Message, version: int) -> Iterator[str]:
    """Yield the paths of the brokers' host names in this version of a reply: each has a port beside it."""
    if message.kind == "request":
        return
    fields = dict(message.walk(version))
    structs_with_ports = {
        path.rpartition("/")[0] for path, field in fields.items() if "port" in _words(field.name)
    }
    for path, field in fields.items():
        is_host = bool(_words(field.name) & _HOST_WORDS) and field.type == "string"
        has_port = path.rpartition("/")[0] in structs_with_ports
        if is_host and has_port and not _is_of_no_broker(message, path):
            yield path


def throttle_place(message: Message, version: int) -> str:
    """Return the offset of throttle_time_ms in a reply's body, `last`, or nothing if it is absent.

    `?`: it stands between fields of variable length, is nested or tagged, and `wire.throttle` would not find it.
    """
    fields = [each for each in message.fields if version in each.versions and not each.tagged]
    names = [each.name for each in fields]
    if "ThrottleTimeMs" not in names:
        is_elsewhere = any(subject_of(each) == "throttle" for _, each in message.walk(version))
        return "?" if is_elsewhere else ""
    before = fields[: names.index("ThrottleTimeMs")]
    if all(each.type in FIXED_BYTES and not each.is_array for each in before):
        return str(sum(FIXED_BYTES[each.type] for each in before))
    return "last" if names[-1] == "ThrottleTimeMs" else "?"


def undecided(release: Release) -> Iterator[Undecided]:
    """Yield each field that clients may meet and whose meaning no table has, and each address that is gone."""
    for message in release.messages.values():
        request = release.messages[message.key, "request"]
        met = [v for v in message.versions if may_be_met(request, v)]
        fields = dict(message.walk())
        for path, field in fields.items():
            around = [each for at, each in fields.items() if f"{path}/".startswith(f"{at}/")]
            versions = [v for v in met if all(v in each.versions for each in around)]
            if versions and (why := _why(message, path, field)):
                kind = message.kind.capitalize()
                yield Undecided(f"{message.name}{kind} v{versions[0]}+: {path}", why)
        if message.kind == "response":
            if lost := [v for v in met if throttle_place(message, v) == "?"]:
                why = "wire.throttle does not find it: it is neither last nor at a fixed place"
                yield Undecided(f"{message.name}Response v{lost[0]}+: ThrottleTimeMs", why)
            for path in REWRITTEN.get(message.name, ()):
                if path not in fields:
                    why = "this address is gone: what names the brokers now?"
                    yield Undecided(f"{message.name}Response: {path}", why)


def may_be_met(request: Message, version: int) -> bool:
    """Return whether clients may use this version: it is offered, or no table has it yet."""
    if find(request.key, version) is not None:
        return True
    return "broker" in request.listeners and known(request.key, version) is None


def _why(message: Message, path: str, field: Field) -> str:
    """Return what must be decided of a field; nothing if it is known."""
    if field.entity and field.entity not in ENTITIES:
        return f"entityType {field.entity}: what must a policy know of it?"
    if looks_like_address(field) and not _is_decided(message, path):
        return f'looks like an address: "{field.about}"'
    names = subject_of(field) in {"topic", "topic id", "group", "transactional id"}
    if names and field.tagged and message.kind == "request":
        return "a name in a tagged field: policies do not see it"
    return ""


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _is_decided(message: Message, path: str) -> bool:
    """Return whether the field is no broker's address, or a known one: its host, its port, or a struct around them."""
    struct, _, name = path.rpartition("/")
    hosts = REWRITTEN.get(message.name, ()) if message.kind == "response" else ()
    beside = "port" in _words(name) and any(each.rpartition("/")[0] == struct for each in hosts)
    is_known = beside or any(each == path or each.startswith(f"{path}/") for each in hosts)
    return is_known or _is_of_no_broker(message, path)


def _is_of_no_broker(message: Message, path: str) -> bool:
    whole = f"{message.name}/{path}"
    return any(whole == each or whole.startswith(f"{each}/") for each in _OF_NO_BROKER)
