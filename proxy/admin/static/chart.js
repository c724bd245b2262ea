// The last 15 minutes of one figure (or as much as is known): a line over a filled ground, and the figure itself in words.
//
// Rules:
// - All charts have one time axis and share one mark: pointing at one chart shows the values of all.
// - Missing points are a gap in the line.
// - A scale begins at 0 and ends at a round figure, at least `floor`, so that small values look small.
// - More points than pixels: the highest of each pixel is drawn, so that no peak is lost.

import { element, put, set } from "./dom.js";
import { clock } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const LONGEST_MS = 15 * 60 * 1000;
const SHORTEST_MS = 60 * 1000;
const GAP_MS = 3500;
const HEIGHT = 56;
const AXIS_TOP = 2; // where the top of the scale is drawn

// The next round figure: 1, 2 or 5 times a power of ten; for bytes, a power of two.
export function roundUp(value, binary) {
  if (binary) return 2 ** Math.ceil(Math.log2(Math.max(1, value)));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value * (1 - 1e-9)) * power;
}

export class Charts {
  // kinds: [{ key, label, text(value), floor, hint, tone(value) }]
  // told: called with the seconds that are shown.
  constructor(place, kinds, told) {
    this.points = [];
    this.marked = null;
    this.told = told;
    this.windowMs = SHORTEST_MS;
    this.charts = kinds.map((kind) => new Chart(place, kind, this));
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(place);
  }

  start(points) {
    this.points = points.slice();
    this.draw();
  }

  add(point) {
    const last = this.points.at(-1);
    if (last && point.ts_ms <= last.ts_ms) return;
    this.points.push(point);
    const from = point.ts_ms - LONGEST_MS;
    let old = 0;
    while (this.points[old].ts_ms < from) old += 1;
    if (old) this.points.splice(0, old);
    this.draw();
  }

  mark(tsMs) {
    this.marked = tsMs;
    const point = tsMs === null ? null : this.nearest(tsMs);
    for (const chart of this.charts) chart.tell(point, this.points.at(-1));
  }

  nearest(tsMs) {
    let best = null;
    for (const point of this.points) {
      if (best === null || Math.abs(point.ts_ms - tsMs) < Math.abs(best.ts_ms - tsMs)) best = point;
    }
    return best;
  }

  // By one point left or right of the mark.
  step(by) {
    if (!this.points.length) return;
    const from = this.marked === null ? null : this.nearest(this.marked);
    const at = from === null ? this.points.length - 1 : this.points.indexOf(from) + by;
    this.mark(this.points[Math.max(0, Math.min(this.points.length - 1, at))].ts_ms);
  }

  draw() {
    const known = this.points.length ? this.points.at(-1).ts_ms - this.points[0].ts_ms : 0;
    // In whole minutes, or every second would draw all lines again.
    this.windowMs = Math.min(LONGEST_MS, Math.max(1, Math.ceil(known / SHORTEST_MS)) * SHORTEST_MS);
    this.told(this.windowMs / 1000);
    for (const chart of this.charts) chart.draw(this.points, this.windowMs);
    this.mark(this.marked);
  }
}

class Chart {
  constructor(place, kind, all) {
    this.kind = kind;
    this.all = all;
    this.figure = element("span", { class: "figure" });
    this.when = element("span", { class: "when" });
    this.most = element("span", { class: "most" });
    this.svg = svg("svg", { role: "img", tabindex: "0", preserveAspectRatio: "none" });
    this.grid = this.svg.appendChild(svg("path", { class: "grid", "vector-effect": "non-scaling-stroke" }));
    this.ticks = [element("span"), element("span"), element("span")];
    const axis = element("div", { class: "axis", "aria-hidden": "true" }, ...this.ticks);
    this.ground = this.svg.appendChild(svg("path", { class: "ground" }));
    this.line = this.svg.appendChild(svg("path", { class: "line", "vector-effect": "non-scaling-stroke" }));
    this.hair = this.svg.appendChild(svg("path", { class: "hair", "vector-effect": "non-scaling-stroke" }));
    const head = element("div", { class: "head" }, element("span", { class: "label", title: kind.hint }, kind.label), this.when);
    place.append(
      element("div", { class: "chart" }, head, element("div", { class: "head" }, this.figure, this.most),
        element("div", { class: "plot" }, axis, this.svg)),
    );
    this.svg.addEventListener("pointermove", (event) => {
      const box = this.svg.getBoundingClientRect();
      all.mark(this.end - this.windowMs * (1 - (event.clientX - box.left) / box.width));
    });
    this.svg.addEventListener("pointerleave", () => all.mark(null));
    this.svg.addEventListener("blur", () => all.mark(null));
    this.svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      all.step(by);
    });
  }

  draw(points, windowMs) {
    this.windowMs = windowMs;
    const width = Math.max(40, Math.round(this.svg.clientWidth));
    if (width !== this.width) {
      this.width = width;
      this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      this.grid.setAttribute("d", `M0 ${AXIS_TOP}H${width}M0 ${(AXIS_TOP + HEIGHT - 1) / 2}H${width}`);
    }
    this.end = points.at(-1)?.ts_ms ?? 0;
    const start = this.end - windowMs;
    const key = this.kind.key;
    let top = 0;
    for (const point of points) if (point[key] > top) top = point[key];
    this.top = top;
    const { floor, binary, text, axis = text } = this.kind;
    const end = roundUp(Math.max(top, floor), binary);
    [end, end / 2, 0].forEach((value, at) => put(this.ticks[at], axis(value)));
    const scale = (HEIGHT - 1 - AXIS_TOP) / end;
    let line = "";
    let ground = "";
    let opened = null; // x where the running piece began
    let column = -1;
    let highest = 0;
    let lastMs = 0;
    const flush = () => {
      if (column < 0) return;
      const y = (HEIGHT - 1 - highest * scale).toFixed(1);
      line += opened === null ? `M${column} ${y}` : `L${column} ${y}`;
      ground += opened === null ? `M${column} ${HEIGHT}L${column} ${y}` : `L${column} ${y}`;
      if (opened === null) opened = column;
    };
    const close = () => {
      flush();
      if (opened !== null) ground += `L${column} ${HEIGHT}Z`;
      opened = null;
      column = -1;
    };
    for (const point of points) {
      const value = point[key];
      if (typeof value !== "number" || (lastMs && point.ts_ms - lastMs > GAP_MS)) close();
      lastMs = point.ts_ms;
      if (typeof value !== "number") continue;
      const x = Math.floor(((point.ts_ms - start) / windowMs) * (width - 1));
      if (x === column) highest = Math.max(highest, value);
      else {
        flush();
        column = x;
        highest = value;
      }
    }
    close();
    if (line !== this.drawn) {
      this.drawn = line;
      this.line.setAttribute("d", line);
      this.ground.setAttribute("d", ground);
    }
  }

  tell(marked, last) {
    const point = marked ?? last;
    const { key, label, text, tone } = this.kind;
    const value = point?.[key];
    put(this.figure, text(value));
    const mood = tone ? tone(value) : "";
    const name = mood ? `figure ${mood}` : "figure";
    if (this.figure.className !== name) this.figure.className = name;
    put(this.when, marked ? clock(marked.ts_ms) : "");
    put(this.most, this.top > 0 ? `max ${text(this.top)}` : "");
    const words = `${label}: ${text(value)} ${marked ? `at ${clock(marked.ts_ms)}` : "now"}, maximum ${text(this.top)}`;
    set(this.svg, "aria-label", words);
    const x = marked ? Math.floor(((marked.ts_ms - this.end) / this.windowMs + 1) * (this.width - 1)) : null;
    const hair = x === null ? "" : `M${x} 0V${HEIGHT}`;
    if (hair !== this.hairDrawn) {
      this.hairDrawn = hair;
      this.hair.setAttribute("d", hair);
    }
  }
}

function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
