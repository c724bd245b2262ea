"""The wire room: Kafka's bytes, without behaviour.

Frames, headers and bodies are read in place, as offsets into one buffer. No module here reads a socket or a
clock. The names below are the ones that other rooms use most; each module states its own rules.

Internal: authors of policies import `sluice`.
"""

from wire.apis import Api, ApiKey, find
from wire.errors import ErrorCode, WireError

__all__ = ["Api", "ApiKey", "ErrorCode", "WireError", "find"]
