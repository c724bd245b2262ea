"""A running proxy: a variant as a process in front of one broker, on the first core unless it may use all."""

from pathlib import Path
from typing import Self

from bench.harness.machine import cores
from bench.harness.ports import free_ports
from bench.harness.processes import Program
from bench.variants import SLUICE, Place, Variant


class Running:
    """A proxy in front of the broker at 127.0.0.1:`upstream`; `direct` has none, and its `port` is the broker's.

    Sluice must end with exit code 0 and without a traceback in its log; otherwise `problems` says so.

    Raises:
        BenchError: it does not accept connections.
    """

    def __init__(
        self, variant: Variant, upstream: int, folder: Path, *, pinned: bool = True
    ) -> None:
        self.name = variant.name
        self.problems: list[str] = []
        self.port = upstream
        self._program: Program | None = None
        if variant.command is None:
            return
        self.port = free_ports(count=3)
        folder.mkdir(parents=True, exist_ok=True)
        self.place = Place(self.port, upstream, folder)
        self.log = folder / "log"
        core = cores()[0] if pinned else None
        self._program = Program(variant.command(self.place), core, self.log)
        self._program.wait_accepting(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Return the id of its root process; None for `direct`."""
        return self._program.pid if self._program else None

    @property
    def ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._program is not None and self._program.process.poll() is not None

    def wait_accepting(self, port: int) -> None:
        """Wait until it accepts on another of its ports. Raises BenchError if it does not."""
        if self._program is not None:
            self._program.wait_accepting(port)

    def stop(self) -> None:
        """End it; record a wrong exit code or a traceback as a problem."""
        program, self._program = self._program, None
        if program is None:
            return
        was_gone = program.process.poll() is not None
        program.stop()
        code = program.process.returncode
        if was_gone:
            self.problems.append(program.last_words(f"ended by itself with {code}"))
        elif self.name.startswith(SLUICE):
            if code:
                self.problems.append(f"exit code {code}")
            if "Traceback" in self.log.read_text(errors="replace"):
                self.problems.append(program.last_words("wrote a traceback"))
