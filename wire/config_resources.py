"""Which kinds of resources a request changes the configs of: AlterConfigs and IncrementalAlterConfigs.

- The bytes are walked in one pass, as a broker reads them; names and values are stepped over. Each array element and
  tagged field costs element budget.
- Kinds are Kafka's (`ConfigResource.Type`). A number that Kafka does not know is returned as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.primitives import (
    ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    skip,
    skip_compact,
    skip_string,
    spend,
    spend_tags,
)

if TYPE_CHECKING:
    from wire.apis import Api

TOPIC: Final = 2
GROUP: Final = 32
_MIN_RESOURCE_BYTES: Final = 3
"""The kind, and a name and an array that are empty."""
_MIN_CONFIG_BYTES: Final = 2


def altered_kinds(api: Api, body: Buffer) -> frozenset[int]:
    """Return the kinds of the resources in the request with this body. Raises `WireError` if it is malformed."""
    if api.key not in {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}:
        raise WireError(f"{api.name} changes no configs")
    operation_bytes = int(api.key == ApiKey.INCREMENTAL_ALTER_CONFIGS)
    read_count = compact_count if api.flexible else array_count
    skip_text = skip_compact if api.flexible else skip_string
    end, budget = len(body), ELEMENT_BUDGET
    kinds: set[int] = set()
    count, pos = read_count(body, 0, end, _MIN_RESOURCE_BYTES)
    if count < 0:
        raise WireError("array resources is null, expected 0 or more elements")
    budget = spend(budget, count)
    for _ in range(count):
        name_at = skip(pos, 1, end)
        kinds.add(body[pos])
        pos = skip_text(body, name_at, end)
        configs, pos = read_count(body, pos, end, _MIN_CONFIG_BYTES)
        budget = spend(budget, configs)
        for _ in range(configs):
            pos = skip(skip_text(body, pos, end), operation_bytes, end)
            pos = skip_text(body, pos, end)
            if api.flexible:
                pos, budget = spend_tags(body, pos, end, budget)
        if api.flexible:
            pos, budget = spend_tags(body, pos, end, budget)
    skip(pos, 1, end)  # validate_only
    return frozenset(kinds)
