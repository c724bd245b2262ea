"""The real Helm, as a user runs it, with folders of its own."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.kubernetes.kube import ControlPlane

TIMEOUT_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm before one control plane; `folder` is for its files."""

    plane: ControlPlane
    folder: Path

    def try_run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, also one that fails."""
        homes = {f"HELM_{each}_HOME": str(self.folder / each.lower()) for each in _HOMES}
        return subprocess.run(
            [self.plane.programs / "helm", *arguments],
            env=os.environ | homes | {"KUBECONFIG": str(self.plane.kubeconfig)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def run(self, *arguments: str | Path) -> str:
        """Run a command; return what it prints, or raise AssertionError with what it says."""
        done = self.try_run(*arguments)
        assert done.returncode == 0, f"helm {arguments}: {done.stderr}{done.stdout}"
        return done.stdout

    def release(self, name: str, namespace: str) -> dict[str, Any]:
        """Return `helm status`: name, version, info (status, notes), manifest, hooks."""
        return json.loads(self.run("status", name, "--namespace", namespace, "--output", "json"))


_HOMES: Final = ("CACHE", "CONFIG", "DATA")
