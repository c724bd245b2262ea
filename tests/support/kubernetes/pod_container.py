"""One container of a pod as the kubelet keeps it: started again after its end, with a back-off, and probed.

The kubelet's rules (KEP-753, pkg/kubelet/prober, pkg/util/flowcontrol/backoff): the first restart is immediate, later
ones wait 10 s, 20 s, up to 5 minutes; the other probes begin when the startup probe has succeeded; a container whose
startup or liveness probe fails too often is stopped as at the end of its pod, and started again.
"""

import http.client
import math
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.support.kubernetes.pod_spec import Spec, port_of
from tests.support.kubernetes.runc import Container

FIRST_BACK_OFF_S: Final = 10.0
LONGEST_BACK_OFF_S: Final = 300.0
_TICK_S: Final = 0.02
_DEFAULTS: Final = {
    "initialDelaySeconds": 0,
    "periodSeconds": 10,
    "timeoutSeconds": 1,
    "failureThreshold": 3,
}


@dataclass(slots=True)
class PodContainer:
    """A container of a pod; `make` prepares each of its starts, whose number it gets.

    `is_started` is what the next container waits for: the startup probe has succeeded, or there is none.
    """

    spec: Spec
    is_sidecar: bool
    address: str
    is_kept: bool
    """Whether it is started again after its end."""
    grace_s: float
    make: Callable[[int], Container]
    tell: Callable[[str, str], None]
    """Gets the container's name and each thing that happens to it."""
    runs: list[Container] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    """The exit codes of its earlier starts."""
    is_started: bool = False
    is_ready: bool = False
    _restart_s: float = 0.0
    _back_off_s: float = 0.0
    _noticing: threading.Lock = field(default_factory=threading.Lock)
    _probing: threading.Event = field(default_factory=threading.Event)
    _prober: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Return its name in the pod's spec."""
        return str(self.spec["name"])

    @property
    def current(self) -> Container:
        """Return its latest start."""
        assert self.runs, f"{self.name} was not started"
        return self.runs[-1]

    @property
    def is_running(self) -> bool:
        """Return whether its process runs, as far as the kubelet has noticed."""
        return len(self.runs) > len(self.codes)

    def start_if_due(self) -> None:
        """Start it unless it runs, or waits for the end of its back-off."""
        if self.is_running or time.monotonic() < self._restart_s:
            return
        container = self.make(len(self.runs) + 1)
        container.start()
        self.runs.append(container)
        self.tell(self.name, "started")
        self._probing = threading.Event()
        self.is_started = "startupProbe" not in self.spec
        self.is_ready = self.is_started and "readinessProbe" not in self.spec
        self._prober = threading.Thread(target=self._probe, args=(self._probing,), daemon=True)
        self._prober.start()

    def notice_end(self) -> None:
        """Take note of its end, if it has ended since the last call."""
        with self._noticing:
            if not self.is_running or (code := self.current.exit_code()) is None:
                return
            self.codes.append(code)
        self.is_started = self.is_ready = False
        self.stop_probing()
        self.tell(self.name, f"ended with {code}")
        self._restart_s = time.monotonic() + self._back_off_s if self.is_kept else math.inf
        self._back_off_s = min(max(2 * self._back_off_s, FIRST_BACK_OFF_S), LONGEST_BACK_OFF_S)

    def stop(self, grace_s: float) -> None:
        """SIGTERM; SIGKILL after `grace_s`. Returns when it has ended."""
        if self.is_running and self.current.exit_code() is None:
            self.tell(self.name, "SIGTERM")
            self.current.signal(signal.SIGTERM)
            if self.current.wait(grace_s) is None:
                self.tell(self.name, "SIGKILL")
                self.current.kill()
        self.notice_end()

    def stop_probing(self) -> None:
        """End the probes of the current start."""
        self._probing.set()

    def pre_stop(self) -> None:
        """Run its preStop hook, if it has one: `sleep`, `exec` or `httpGet`."""
        hook = self.spec.get("lifecycle", {}).get("preStop")
        if hook is None or not self.is_running:
            return
        self.tell(self.name, "preStop")
        if "sleep" in hook:
            time.sleep(hook["sleep"]["seconds"])
        elif "exec" in hook:
            self.current.run_inside(*hook["exec"]["command"])
        else:
            self._succeeds(hook, 30.0)

    def _probe(self, ending: threading.Event) -> None:
        """Probe the current start until its end: the startup probe first, then the others."""
        began_s = time.monotonic()
        if (startup := self.spec.get("startupProbe")) is not None:
            failures = 0
            while not ending.wait(_delay_s(startup, began_s, failures)):
                if self._succeeds(startup, _setting(startup, "timeoutSeconds")):
                    break
                failures += 1
                if failures >= _setting(startup, "failureThreshold"):
                    self._kill_for("startup")
                    return
            if ending.is_set():
                return
            self.tell(self.name, f"startup probe succeeded, {failures} failed before")
            self.is_started = True
        due = {
            kind: time.monotonic()
            for kind in ("readinessProbe", "livenessProbe")
            if kind in self.spec
        }
        self.is_ready = "readinessProbe" not in self.spec
        failed = dict.fromkeys(due, 0)
        while not ending.wait(_TICK_S):
            for kind, due_s in due.items():
                if time.monotonic() < due_s:
                    continue
                probe = self.spec[kind]
                due[kind] = time.monotonic() + _setting(probe, "periodSeconds")
                is_ok = self._succeeds(probe, _setting(probe, "timeoutSeconds"))
                failed[kind] = 0 if is_ok else failed[kind] + 1
                is_bad = failed[kind] >= _setting(probe, "failureThreshold")
                if kind == "readinessProbe" and (is_ok or is_bad) and is_ok != self.is_ready:
                    self.tell(self.name, "ready" if is_ok else "not ready")
                    self.is_ready = is_ok
                elif kind == "livenessProbe" and is_bad:
                    self._kill_for("liveness")
                    return

    def _kill_for(self, probe: str) -> None:
        self.tell(self.name, f"{probe} probe failed")
        self.current.signal(signal.SIGTERM)
        if self.current.wait(self.grace_s) is None:
            self.current.kill()

    def _succeeds(self, probe: Spec, timeout_s: float) -> bool:
        match probe:
            case {"httpGet": get}:
                return self._answers(port_of(self.spec, get["port"]), get["path"], timeout_s)
            case {"exec": {"command": command}}:
                return self.current.run_inside(*command).returncode == 0
        raise AssertionError(f"a probe that is not known here: {probe}")

    def _answers(self, port: int, path: str, timeout_s: float) -> bool:
        connection = http.client.HTTPConnection(self.address, port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _setting(probe: Spec, name: str) -> float:
    return float(probe.get(name, _DEFAULTS[name]))


def _delay_s(probe: Spec, began_s: float, failures: int) -> float:
    if failures:
        return _setting(probe, "periodSeconds")
    return max(0.0, began_s + _setting(probe, "initialDelaySeconds") - time.monotonic())
