"""Requests of each API whose rights are known."""

from collections.abc import Iterator
from contextlib import suppress

from policies.testing import BenchRequest, PolicyBench
from wire import codec
from wire.apis import OFFERED, Api, ApiKey, find
from wire.authorization import AUTHORIZED, MAX_VERSIONS, is_authorized
from wire.errors import WireError

NAMES = {
    "group_id": "g",
    "transactional_id": "x",
    "v3_and_below_transactional_id": "x",
    "key": "g",
    "coordinator_keys": ["g"],
    "groups": ["g"],
    "groups_names": ["g"],
    "group_ids": ["g"],
    "transactional_ids": ["x"],
}
CONFIGS = {ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}


def apis() -> Iterator[Api]:
    """Yield each API and version that a guard offers, and of which a message can be made."""
    for key in sorted(AUTHORIZED & OFFERED.keys()):
        newest = MAX_VERSIONS.get(key, OFFERED[key][1])
        for version in range(OFFERED[key][0], (newest or 0) + 1):
            api = find(key, version)
            if api is not None and is_authorized(api) and codec.is_known(api):
                yield api


def naming(bench: PolicyBench, api: Api) -> BenchRequest:
    """Return a request that names one of each kind that it has."""
    fields: dict[str, object] = {}
    if api.key in CONFIGS:
        fields["resources"] = [
            {"resource_type": kind, "resource_name": "1"} for kind in (2, 4, 16, 32)
        ]
    for name, value in NAMES.items():
        with suppress(ValueError, WireError, TypeError):
            bench.request(api.name, api.version, fields={name: value})
            fields[name] = value
    if api.key == ApiKey.OFFSET_FETCH and api.version >= 8:
        fields["groups"] = [{"group_id": "g", "topics": []}]
    if api.key == ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
        fields["groups"] = [{"group_id": "g", "topics": []}]
    try:
        return bench.request(api.name, api.version, topics=["secret"], fields=fields)
    except (ValueError, WireError):
        return bench.request(api.name, api.version, fields=fields)
