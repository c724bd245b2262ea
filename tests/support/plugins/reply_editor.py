"""A policy for tests, as a stranger would write it: hides topics from Metadata and the value of a config."""

import msgspec

from policies import messages
from policies.api import FORWARD, Forward, Host, Peer, Policy, Replace, Request, Response
from wire.apis import ApiKey

KEY = "max.message.bytes"
SHOWN = "7654321"


class EditorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The topics that no client sees."""

    hidden: tuple[str, ...]


class ReplyEditor(Policy):
    """Replaces the bodies of Metadata and DescribeConfigs."""

    Config = EditorConfig
    apis = hears_body = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS})

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, EditorConfig)
        self._hidden = frozenset(config.hidden)

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Replace:
        """Leave the topics out, or write another value."""
        if response.body is None or response.errors is None or response.errors.unread:
            return FORWARD
        message = messages.decode_response(request.api, response.body)
        if request.api_key == ApiKey.METADATA:
            topics = messages.structs(message, "topics")
            seen = [
                each for each in topics if messages.value(each, "name", str, "") not in self._hidden
            ]
            return Replace(messages.encode(messages.changed(message, {"topics": seen})))
        results = []
        for result in messages.structs(message, "results"):
            configs = [
                messages.changed(each, {"value": SHOWN})
                if messages.value(each, "name", str, "") == KEY
                else each
                for each in messages.structs(result, "configs")
            ]
            results.append(messages.changed(result, {"configs": configs}))
        return Replace(messages.encode(messages.changed(message, {"results": results})))
