"""A policy for tests that watches a file."""

from __future__ import annotations

import msgspec

from policies.api import Host, Policy


class FileReaderConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file's path."""

    path: str = "state"


class FileReader(Policy):
    """Remembers each content of the file; refuses `bad`."""

    Config = FileReaderConfig

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, FileReaderConfig)
        self.seen: list[bytes] = []
        self.seen.append(host.watch_file(config.path, self.on_change))

    def on_change(self, content: bytes) -> None:
        """Remember it."""
        if content == b"bad":
            raise ValueError("bad content")
        self.seen.append(content)
