"""A policy that needs every Produce whole and then forwards it, so that each is charged to the pool.

`install` creates a package that Sluice finds by its entry point, like any plug-in. The package is a copy of this file,
which therefore imports nothing of the benchmark.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import msgspec

from policies.api import FORWARD, Need, Policy

if TYPE_CHECKING:
    from pathlib import Path

    from policies.api import Forward, Host, Peer, Request

PRODUCE = 0
NAME = "whole"
_MODULE = "sluice_bench_whole"


class WholeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No settings."""


class Whole(Policy):
    """Adds up the lengths of the bodies."""

    Config = WholeConfig
    apis = frozenset({PRODUCE})
    response_apis = frozenset[int]()
    needs = Need.BODY

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        self.seen_bytes = 0

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Forward the request."""
        assert request.body is not None, "the request has no body"
        self.seen_bytes += len(request.body)
        return FORWARD


def install(folder: Path) -> str:
    """Install the package below `folder`; return the PYTHONPATH with which Sluice finds it."""
    package = folder / "whole"
    info = package / f"{_MODULE}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {_MODULE}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sluice.policies]\n{NAME} = {_MODULE}:Whole\n")
    shutil.copyfile(__file__, package / f"{_MODULE}.py")
    return os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
