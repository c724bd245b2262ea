// Short lists of figures: pairs of a word and a figure, and words with a bar and a count.

import { bar, element, put } from "./dom.js";

// Pairs of a word and a figure: [label, text, tone, hint]; the labels stay the same or the list is rebuilt.
export class Pairs {
  constructor(place) {
    this.place = place;
    this.labels = "";
    this.cells = [];
  }

  show(pairs) {
    const labels = pairs.map(([label]) => label).join("\n");
    if (labels !== this.labels) {
      this.labels = labels;
      this.cells = pairs.map(([, , , hint]) => element("dd", { title: hint }));
      this.place.replaceChildren(
        ...pairs.map(([label, , , hint], at) => element("div", {}, element("dt", { title: hint }, label), this.cells[at])),
      );
    }
    pairs.forEach(([, text, tone = ""], at) => {
      put(this.cells[at], text);
      if (this.cells[at].className !== tone) this.cells[at].className = tone;
    });
  }
}

// Lines of a word, a bar and a figure: { label, value, text, hint, tone }. The bars are shares of the largest
// value, or of `whole` if one is given.
export class Bars {
  constructor(place, label) {
    this.table = element("table", { class: "bars" }, element("caption", { class: "unseen" }, label));
    this.body = this.table.createTBody();
    this.lines = [];
    place.append(this.table);
  }

  show(rows, whole = 0) {
    while (this.lines.length > rows.length) this.lines.pop().tr.remove();
    while (this.lines.length < rows.length) this.lines.push(this.line());
    const most = whole || Math.max(...rows.map((row) => row.value || 0), 0);
    rows.forEach((row, at) => {
      const line = this.lines[at];
      put(line.word, row.label);
      put(line.figure, row.text);
      if (line.word.title !== (row.hint || "")) line.word.title = row.hint || "";
      bar(line.bar, most ? row.value / most : 0, row.tone);
    });
  }

  line() {
    const tr = this.body.insertRow();
    const word = tr.appendChild(element("th", { scope: "row" }));
    const box = tr.appendChild(element("td", { class: "barcell" })).appendChild(element("span"));
    const figure = tr.appendChild(element("td", { class: "number" }));
    return { tr, word, bar: box, figure };
  }
}
