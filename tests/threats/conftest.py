"""The fixtures of a Sluice before a stub broker."""

from tests.support.faults.faults import broker, far, start

__all__ = ["broker", "far", "start"]
