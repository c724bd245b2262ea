// Numbers and times as they are read here. An unknown figure is a dash, never 0.

export const NONE = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

const known = (value) => typeof value === "number" && Number.isFinite(value);

export const count = (value) => (known(value) ? whole.format(value) : NONE);

// Small rates need their tenths, large ones only get longer by them.
export const rate = (value) =>
  !known(value) ? NONE : value !== 0 && Math.abs(value) < 10 ? tenths.format(value) : whole.format(value);

export const ms = (value) =>
  !known(value) ? NONE : value !== 0 && value < 10 ? tenths.format(value) : whole.format(value);

export const percent = (value) => (known(value) ? `${rate(value)} %` : NONE);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  if (!known(value)) return NONE;
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit && size < 100 ? tenths.format(size) : whole.format(size)} ${UNITS[unit]}`;
}

// A length of time in its two largest units: "3 h 12 min".
export function span(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 10) return `${tenths.format(Math.max(0, seconds))} s`;
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

function two(major, majorUnit, minor, minorUnit) {
  return minor ? `${major} ${majorUnit} ${minor} ${minorUnit}` : `${major} ${majorUnit}`;
}

const hours = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});

export const clock = (tsMs) => (known(tsMs) ? hours.format(tsMs) : NONE);

export const clockMs = (tsMs) =>
  known(tsMs) ? `${hours.format(tsMs)}.${String(Math.floor(tsMs) % 1000).padStart(3, "0")}` : NONE;

// What cannot be seen, or turns the text around it, is written as the terminal's tables write it: "\u202e", "\x1b".
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const SHORT = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

export const plain = (text) => String(text).replace(UNSEEN, (c) => {
  const code = c.codePointAt(0).toString(16);
  if (c in SHORT) return SHORT[c];
  if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
});

export const named = (text) => (text === "" || text === null || text === undefined ? NONE : plain(text));

export const byteRate = (value) => (known(value) ? `${bytes(value)}/s` : NONE);

// Two percentiles in one cell: "4.1 / 32".
export const pair = (quantiles) =>
  known(quantiles?.p50) || known(quantiles?.p99) ? `${ms(quantiles.p50)} / ${ms(quantiles.p99)}` : NONE;
