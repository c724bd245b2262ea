// A table that is brought up to date once a second, touching only the cells whose text has changed.
//
// Rules:
// - A row is known by its key, so that a selection in it survives.
// - While the pointer or the focus is in a table its rows keep their order: nothing runs away from a click.
// - Text from outside is text: nothing here makes markup of it.

import { element, hide, put, set } from "./dom.js";
import { NONE } from "./words.js";

const FEW = 12;
// What says "nothing here" steps back, so that the rest is seen.
const QUIET = new Set(["0", "0 %", "0 B", NONE, "none"]);

// A column: { label, text(row) } and, if wanted, value(row) to sort by, number: true, wide: true, hint,
// draw(cell, row, text) (called when the text has changed; the cell is empty at first), mark(row): a class for the cell.
// `heads(row)`: a line with the sums of the rows below it, absent when the rows are sorted; `member(row)`: one of those;
// `row.rest`: it is there only when all are shown.
export class Table {
  constructor(place, { label, columns, key, empty, few = FEW, heads = () => false, member = () => false }) {
    this.isHead = heads;
    this.isMember = member;
    this.columns = columns;
    this.key = key;
    this.few = few;
    this.all = false;
    this.rows = [];
    this.lines = new Map();
    this.order = [];
    this.sort = null;
    this.table = element("table");
    this.table.append(element("caption", { class: "unseen" }, label));
    const head = this.table.createTHead().insertRow();
    this.heads = columns.map((column, at) => head.appendChild(this.heading(column, at)));
    this.body = this.table.createTBody();
    this.nothing = element("p", { class: "empty" }, empty);
    this.more = element("button", { type: "button", class: "more" });
    this.more.addEventListener("click", () => {
      this.all = !this.all;
      this.draw();
    });
    this.box = element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, this.table);
    place.append(this.box, this.nothing, this.more);
  }

  heading(column, at) {
    const cell = element("th", { scope: "col", class: column.number ? "number" : undefined, title: column.hint });
    if (!column.value) {
      cell.textContent = column.label;
      return cell;
    }
    const button = element("button", { type: "button" }, column.label);
    button.addEventListener("click", () => this.sortBy(at));
    cell.append(button);
    return cell;
  }

  // Numbers from the largest at first, words from A; a second click turns it round, a third gives it up.
  sortBy(at) {
    const first = this.columns[at].number ? -1 : 1;
    if (!this.sort || this.sort.at !== at) this.sort = { at, way: first };
    else this.sort = this.sort.way === first ? { at, way: -first } : null;
    this.heads.forEach((head, place) => {
      if (this.sort && this.sort.at === place) {
        head.setAttribute("aria-sort", this.sort.way > 0 ? "ascending" : "descending");
      } else head.removeAttribute("aria-sort");
    });
    this.draw(true);
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  draw(force = false) {
    const sorted = this.sorted(force);
    const shown = this.all ? sorted : sorted.filter(([, row]) => this.sort || !row.rest).slice(0, this.few);
    const total = this.rows.reduce((n, row) => n + !this.isHead(row), 0);
    const keys = new Set();
    let next = this.body.firstElementChild;
    for (const [key, row] of shown) {
      keys.add(key);
      let line = this.lines.get(key);
      if (!line) this.lines.set(key, (line = this.line()));
      this.fill(line, row);
      if (line.tr === next) next = next.nextElementSibling;
      else this.body.insertBefore(line.tr, next);
    }
    for (const [key, line] of this.lines) {
      if (!keys.has(key)) {
        line.tr.remove();
        this.lines.delete(key);
      }
    }
    hide(this.box, !this.rows.length);
    hide(this.nothing, this.rows.length > 0);
    hide(this.more, this.rows.length <= this.few && !this.rows.some((row) => row.rest));
    put(this.more, this.all ? "Show fewer" : `Show all ${total}`);
    set(this.more, "aria-expanded", String(this.all));
  }

  // [key, row] in the order to be shown; two rows of one key (it may happen) both stay.
  sorted(force) {
    const seen = new Map();
    let rows = this.rows.map((row) => {
      const base = this.key(row);
      const again = seen.get(base) || 0;
      seen.set(base, again + 1);
      return [again ? `${base}\u0000${again}` : base, row];
    });
    if (this.sort) {
      rows = rows.filter(([, row]) => !this.isHead(row));
      const { at, way } = this.sort;
      const value = this.columns[at].value;
      rows.sort(([, a], [, b]) => way * compare(value(a), value(b)));
    }
    if (!force && this.box.matches(":hover, :focus-within")) {
      const place = new Map(this.order.map((key, at) => [key, at]));
      const last = this.order.length;
      const at = (key) => place.get(key) ?? last;
      rows = rows.sort(([a], [b]) => at(a) - at(b));
    }
    this.order = rows.map(([key]) => key);
    return rows;
  }

  line() {
    const tr = element("tr");
    const cells = this.columns.map(() => tr.appendChild(element("td")));
    return { tr, cells, texts: [], names: [] };
  }

  fill(line, row) {
    const kind = this.isHead(row) ? "heads" : this.isMember(row) && !this.sort ? "member" : "";
    if (line.tr.className !== kind) line.tr.className = kind;
    this.columns.forEach((column, at) => {
      const text = column.text(row);
      if (line.texts[at] !== text) {
        line.texts[at] = text;
        if (column.draw) column.draw(line.cells[at], row, text);
        else {
          line.cells[at].textContent = text;
          if (!column.number) line.cells[at].title = text;
        }
      }
      const quiet = QUIET.has(text) ? "quiet" : "";
      const name = [column.number ? "number" : "", column.wide ? "wide" : "", column.mark?.(row) || quiet].filter(Boolean).join(" ");
      if (line.names[at] !== name) {
        line.names[at] = name;
        line.cells[at].className = name;
      }
    });
  }
}

function compare(a, b) {
  if (typeof a === "number" || typeof b === "number") return (a ?? -1) - (b ?? -1);
  return String(a).localeCompare(String(b));
}
