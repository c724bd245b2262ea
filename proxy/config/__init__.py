"""The configuration: its types, its sources, its memory budget, and how it is shown."""

from proxy.config.model import Config

__all__ = ["Config"]
