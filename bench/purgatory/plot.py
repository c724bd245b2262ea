"""The picture of purgatory.svg: for both loads the rate that was reached, the cores, and the collector's time.

Dashed lines are the rates at which the designs of Kafka's own benchmark were saturated.

One line for each candidate, in the same colour in every panel. An empty circle is a run that did not hold its rate.
"""

from collections.abc import Callable

from bench.harness import svg
from bench.harness.svg import STYLE, text
from bench.purgatory.figures import PAPER, TITLES, Found, Run
from bench.purgatory.workload import LOADS

WIDTH, PANEL_WIDTH, PANEL_HEIGHT = 860, 340, 220
LABEL_WIDTH = 24  # of a rate on the axis
STEPS = (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
LEFT, TOP, BETWEEN_X, BETWEEN_Y = 64, 128, 78, 74
COLOURS = {
    "list": ("#8c959f", "#6e7681"),
    "heap": ("#bf6b1c", "#d98c45"),
    "simple": ("#8a7a00", "#c9b400"),
    "hashed": ("#1b9e77", "#3fb28f"),
    "linked": ("#8250df", "#a371f7"),
    "wheel": ("#0969da", "#4493f8"),
    "compiled": ("#0b2f6b", "#a5cdff"),
    "kafka": ("#cf222e", "#ff7b72"),
    "old": ("#57606a", "#d0d7de"),
}


def plot(found: Found) -> str:
    """Return the text of the SVG file."""
    rates = sorted({run.rate for run in found.runs})
    max_rate = max((run.target for run in found.runs), default=1.0)
    max_actual = max((run.actual for run in found.runs), default=1.0)
    max_cores = max((run.cores for run in found.runs), default=1.0)
    names = found.names()
    max_gc = max((run.gc_ms or 0.0 for run in found.runs), default=1.0)
    height = TOP + 3 * PANEL_HEIGHT + 2 * BETWEEN_Y + 48
    parts = _legend(names)
    rows: tuple[tuple[str, float, Callable[[Run], float | None]], ...] = (
        ("thousand requests/s", max(max_rate, max_actual) / 1000, lambda run: run.actual / 1000),
        ("cores", max(1.0, max_cores), lambda run: run.cores),
        ("collector, s", max(1.0, max_gc / 1000), _collector_s),
    )
    for column, load in enumerate(LOADS):
        x = LEFT + column * (PANEL_WIDTH + BETWEEN_X)
        for row, (what, limit, figure) in enumerate(rows):
            panel = _Panel(x, TOP + row * (PANEL_HEIGHT + BETWEEN_Y), max_rate / 1000, limit * 1.04)
            parts += panel.frame(f"{load.name} timeouts: {what}", [rate / 1000 for rate in rates])
            for (name, where), rate in PAPER.items():
                if where == load.name and row == 0 and rate <= max_rate:
                    parts.append(panel.mark(name, rate / 1000))
            for name in names:
                runs = [run for run in found.runs if (run.candidate, run.load) == (name, load.name)]
                runs.sort(key=lambda run: run.target)
                points = [(run.target / 1000, figure(run), run.held) for run in runs]
                parts += panel.line(name, [(x, y, held) for x, y, held in points if y is not None])
    return svg.document(
        "The request purgatory: rates reached, cores used and the collector's time",
        "Against the target rate, in thousand requests per second. Dashed: the paper's designs were saturated.",
        (WIDTH, height),
        parts,
        f"{STYLE}\n{_colours()}",
    )


class _Panel:
    """A pair of axes; both start at 0."""

    def __init__(self, x: float, y: float, max_x: float, max_y: float) -> None:
        self.left, self.top = x, y
        self.bottom = y + PANEL_HEIGHT
        self._x, self._y = PANEL_WIDTH / (max_x * 1.04), PANEL_HEIGHT / max_y
        self._max_y = max_y

    def frame(self, title: str, rates: list[float]) -> list[str]:
        """Return title, grid and axis labels."""
        parts = [text(self.left, self.top - 12, "", title)]
        step = next(s for s in STEPS if self._max_y / s <= 6)
        for nth in range(int(self._max_y / step) + 1):
            y = self.bottom - nth * step * self._y
            parts.append(f'<path d="M{self.left} {y:.1f}h{PANEL_WIDTH}" class="grid"/>')
            parts.append(text(self.left - 8, y + 4, "axis", f"{nth * step:g}", anchor="end"))
        labelled_x = -float(LABEL_WIDTH)
        for rate in rates:
            x = self.left + rate * self._x
            parts.append(f'<path d="M{x:.1f} {self.bottom}v5" class="grid"/>')
            if x - labelled_x >= LABEL_WIDTH:
                parts.append(text(x, self.bottom + 20, "axis", f"{rate:g}", anchor="middle"))
                labelled_x = x
        return parts

    def mark(self, name: str, x: float) -> str:
        """Return a dashed line at this rate, in the colour of a candidate."""
        at = self.left + x * self._x
        return f'<path d="M{at:.1f} {self.top}V{self.bottom}" class="l {name}" stroke-dasharray="4 4"/>'

    def line(self, name: str, points: list[tuple[float, float, bool]]) -> list[str]:
        """Return the line of one candidate; a point is x, y and whether the rate was held."""
        places = [
            (self.left + x * self._x, self.bottom - y * self._y, held) for x, y, held in points
        ]
        if not places:
            return []
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts = [f'<polyline points="{path}" class="l {name}"/>']
        for x, y, held in places:
            kind = "full" if held else "empty"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" class="{name} {kind}"/>')
        return parts


def _collector_s(run: Run) -> float | None:
    return None if run.gc_ms is None else run.gc_ms / 1000


def _colours() -> str:
    def rules(which: int) -> str:
        return "\n".join(
            f".{name} {{ stroke: {both[which]} }} .{name}.full {{ fill: {both[which]} }}"
            for name, both in COLOURS.items()
        )

    lines = ".l { fill: none; stroke-width: 2 } .empty { fill: none; stroke-width: 1.5 }"
    return f"{lines}\n{rules(0)}\n@media (prefers-color-scheme: dark) {{\n{rules(1)}\n}}"


def _legend(names: list[str]) -> list[str]:
    parts, x, y = [], 16.0, 66.0
    for name in names:
        width = 36 + 7 * len(TITLES[name])
        if x + width > WIDTH:
            x, y = 16.0, y + 20
        parts.append(f'<path d="M{x} {y - 4}h18" class="l {name}"/>')
        parts.append(text(x + 24, y, "note", TITLES[name]))
        x += width
    return parts
