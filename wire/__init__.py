"""The language: Kafka's bytes, without behaviour.

Frames, headers and bodies are read where they lie, as offsets into one buffer; nothing here reads a
socket or a clock. The names below are what the other rooms use most; each file has its own rules.
"""

from wire.apis import Api, ApiKey, find
from wire.errors import ErrorCode, WireError

__all__ = ["Api", "ApiKey", "ErrorCode", "WireError", "find"]
