"""A policy for tests that uses the tools of its host."""

import msgspec

from policies.api import FORWARD, Forward, Host, Peer, Policy, Request


class ToolUserConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The metric's name and labels; another one makes another metric."""

    name: str = "asked"
    labels: tuple[str, ...] = ("api",)


class ToolUser(Policy):
    """Counts, measures and logs each request, and changes none."""

    Config = ToolUserConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, ToolUserConfig)
        self.asked = host.counter(config.name, "Requests by API.", config.labels)
        self.sizes = host.histogram("request_sizes", "Sizes of requests.", [100, 1000])
        host.log.info("made", at_ms=host.now_ms())

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Forward it."""
        self.asked.add(1, request.api.name)
        self.sizes.add(request.size_bytes)
        self.host.log.warning("asked", at_ms=self.host.now_ms(), message="a field")
        return FORWARD
