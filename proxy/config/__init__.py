"""What Sluice can be told: the model, where values come from, and how they are shown."""

from proxy.config.model import (
    Config,
    Drain,
    Identity,
    Limits,
    Listen,
    Log,
    Memory,
    PolicyEntry,
    Purgatory,
    Upstream,
)

__all__ = [
    "Config",
    "Drain",
    "Identity",
    "Limits",
    "Listen",
    "Log",
    "Memory",
    "PolicyEntry",
    "Purgatory",
    "Upstream",
]
