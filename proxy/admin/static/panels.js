// What each part of the page shows of a state (GET /v1/state).
//
// Only the sections that can be seen (or nearly) are drawn; what is scrolled to is drawn at once.

import { bar, element, hide, put } from "./dom.js";
import { Bars, Pairs } from "./lists.js";
import { Table } from "./table.js";
import { NONE, bytes, clock, clockMs, count, ms, named, percent, rate, span } from "./words.js";

const MUTES = {
  THROTTLED: "over a quota: quiet until it is within it again",
  HELD: "a policy holds a request of it",
  OUT_OF_MEMORY: "the memory pool is empty",
  BACKPRESSURE: "the other side does not take what is to be sent",
  UPSTREAM_AUTH: "Sluice itself authenticates at the broker",
  DRAINING: "the proxy is shutting down",
  ENDING: "the connection is about to end",
  IN_FLIGHT: "as many requests are under way as may be",
  PACED: "its bytes are let through at a rate",
};

const OUTCOMES = [
  ["condition", "Condition met", "what was waited for has come"],
  ["expired", "Expired", "the deadline came first"],
  ["drained", "Drained", "ended by a shutdown"],
  ["client_gone", "Client gone", "the client closed its connection"],
];

const TONES = { throttled: "warn", held: "note", expired: "bad", refused: "bad", failed: "bad", slow: "warn" };

export const CHARTS = [
  { key: "requests_per_s", floor: 10, label: "Requests/s", text: rate, hint: "Requests that came in, per second" },
  { key: "throttled_per_s", floor: 1, label: "Throttled/s", text: rate, hint: "Requests that were delayed or brought a throttle, per second", tone: (v) => (v > 0 ? "warn" : "") },
  { key: "parked", floor: 5, label: "Parked", text: count, hint: "Requests that policies hold in the purgatory" },
  { key: "pool_used_bytes", floor: 1 << 20, label: "Pool used", text: bytes, hint: "Bytes held in the memory pools" },
  { key: "connections", floor: 5, label: "Connections", text: count, hint: "Clients connected" },
  { key: "loop_lag_p99_ms", floor: 10, label: "Loop lag p99", text: (v) => (v === null || v === undefined ? NONE : `${ms(v)} ms`), hint: "How late the event loop gets to its work", tone: (v) => (v > 100 ? "bad" : v > 50 ? "warn" : "") },
];

// "user" and "client id" in cells of their own; both may hold anything a client sent.
const WHO = [
  { label: "User", text: (row) => named(row.user), value: (row) => row.user },
  { label: "Client id", text: (row) => named(row.client_id), value: (row) => row.client_id },
];

const number = (label, field, text = count, hint = undefined) => ({
  label, hint, number: true, text: (row) => text(row[field]), value: (row) => row[field],
});

const api = { label: "API", text: (row) => named(row.api), value: (row) => row.api };

export class Panels {
  constructor() {
    const at = (id) => document.getElementById(id);
    this.traceUrl = "";
    this.facts = new Pairs(at("facts"));
    this.process = new Pairs(at("process"));
    this.parked = new Pairs(at("parked"));
    this.pools = new Table(at("pools"), { label: "Memory pools", key: (row) => row.name, empty: "No pool is bounded or used.", columns: POOLS });
    this.muted = new Bars(at("muted"), "Muted channels by reason");
    this.ages = new Bars(at("ages"), "Waiting requests by age");
    this.outcomes = new Pairs(at("outcomes"));
    this.principals = new Table(at("t-principals"), {
      label: "Principals", key: (row) => `${row.user}\u0000${row.client_id}`, columns: PRINCIPALS,
      empty: "Nobody is here. Point a client's bootstrap.servers at this proxy.",
    });
    this.oldest = new Table(at("t-oldest"), {
      label: "Requests waiting longest", key: (row) => `${row.session}\u0000${row.kind}\u0000${row.api}`, columns: OLDEST,
      empty: "Nothing waits.", few: 6,
    });
    this.connections = new Table(at("t-connections"), {
      label: "Connections", key: (row) => String(row.id), columns: CONNECTIONS, empty: "No connection is open.",
    });
    this.nodes = new Table(at("t-nodes"), {
      label: "Nodes", key: (row) => String(row.node), columns: NODES, empty: "No broker is known yet.",
    });
    this.decisions = new Table(at("t-decisions"), {
      label: "Recent decisions", few: 25, empty: "Nothing was throttled, held, refused or expired.",
      key: (row) => [row.ts_ms, row.user, row.client_id, row.api, row.what, row.trace_id].join("\u0000"),
      columns: decisionColumns(() => this.traceUrl),
    });
    this.at = at;
    this.state = null;
    this.needle = "";
    this.seen = new Set();
    this.watch();
  }

  watch() {
    const observer = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) {
        if (!isIntersecting) this.seen.delete(target.id);
        else {
          this.seen.add(target.id);
          if (this.state) this.draw(target.id);
        }
      }
    }, { rootMargin: "100px" });
    for (const section of document.querySelectorAll("main > section")) observer.observe(section);
  }

  show(state, needle) {
    this.state = state;
    this.needle = needle;
    this.traceUrl = state.now.trace_url || "";
    this.showFacts(state.now);
    for (const section of this.seen) this.draw(section);
  }

  draw(section) {
    const { state, needle } = this;
    if (section === "now") this.showNow(state.now);
    else if (section === "principals") {
      // Who is throttled may well have sent nothing in the last second.
      const rows = [...state.principals].sort((a, b) => (b.throttled_now > 0) - (a.throttled_now > 0));
      this.showTable(this.principals, "n-principals", rows, needle, "the throttled, then the busiest", state.principals_total);
    }
    else if (section === "purgatory") this.showPurgatory(state.purgatory, needle);
    else if (section === "connections") {
      // They come by id, so that they stand still; but the muted are what one looks for.
      const rows = [...state.connections].sort((a, b) => (b.muted.length > 0) - (a.muted.length > 0));
      this.showTable(this.connections, "n-connections", rows, needle,
        state.connections_total > rows.length ? "the muted and the busiest" : "", state.connections_total);
      this.nodes.show(state.nodes);
    } else if (section === "decisions") this.showTable(this.decisions, "n-decisions", state.decisions, needle, "newest first");
  }

  showFacts(now) {
    const reload = now.last_reload;
    this.facts.show([
      ["version", named(now.version)],
      ["up", span((now.ts_ms - now.started_ms) / 1000), "", `since ${new Date(now.started_ms).toLocaleString("en-GB")}`],
      ["config", named(now.config_hash).slice(0, 12), "", "hash of the settings in force"],
      ["reloaded", reload ? `${span((now.ts_ms - reload.ts_ms) / 1000)} ago, ${reload.ok ? "ok" : "failed"}` : "never",
        reload && !reload.ok ? "bad" : ""],
    ]);
  }

  showNow(now) {
    const limit = now.memory_limit_bytes;
    const rss = limit ? `${bytes(now.rss_bytes)} of ${bytes(limit)}` : bytes(now.rss_bytes);
    const lag = now.loop_lag_ms;
    const { spans, records } = now.dropped;
    this.process.show([
      ["Resident memory", rss, limit && now.rss_bytes > 0.9 * limit ? "bad" : ""],
      ["CPU, of one core", percent(now.cpu_percent), now.cpu_percent > 90 ? "warn" : ""],
      ["Loop lag p50 / p99", `${ms(lag.p50)} / ${ms(lag.p99)} ms`, lag.p99 > 100 ? "bad" : lag.p99 > 50 ? "warn" : ""],
      ["Spans dropped", count(spans), spans ? "warn" : "", "traces that were not exported: too many, or no collector"],
      ["Records dropped", count(records), records ? "warn" : "", "usage records that were not written"],
    ]);
    this.pools.show(now.pools);
    const muted = Object.entries(now.muted).sort(([, a], [, b]) => b - a);
    this.muted.show(
      muted.map(([reason, n]) => ({ label: reason, value: n, text: count(n), hint: MUTES[reason], tone: reason === "OUT_OF_MEMORY" && n ? "bad" : "" })),
      now.connections,
    );
    hide(this.at("unmuted"), muted.length > 0);
  }

  showPurgatory(purgatory, needle) {
    const { holds, produces, fetches, watched, timers, ages, outcomes } = purgatory;
    put(this.at("n-purgatory"), `${count(holds + produces + fetches)} waiting`);
    this.parked.show([
      ["Held requests", count(holds), "", "a policy lets them wait before they go on"],
      ["Delayed produces", count(produces), "", "acks=all: the broker waits for its followers"],
      ["Delayed fetches", count(fetches), "", "long polls: the broker waits for data"],
      ["Watched keys' entries", count(watched), "", "Kafka's PurgatorySize"],
      ["Timers", count(timers)],
    ]);
    let from = 0;
    this.ages.show(ages.map(({ le_ms, count: n }) => {
      const label = le_ms === null ? `over ${age(from)}` : `up to ${age(le_ms)}`;
      from = le_ms;
      return { label, value: n, text: count(n) };
    }));
    this.outcomes.show(OUTCOMES.map(([key, label, hint]) => [
      label, count(outcomes[key]), key === "expired" && outcomes[key] ? "warn" : "", hint,
    ]));
    this.oldest.show(matching(purgatory.oldest, needle));
  }

  showTable(table, aside, rows, needle, order, total = rows.length) {
    const found = matching(rows, needle);
    const words = [
      needle ? `${count(found.length)} of ${count(rows.length)} listed match` : count(total),
      total > rows.length && !needle ? `${count(rows.length)} of them listed` : "",
      rows.length ? order : "",
    ];
    put(this.at(aside), words.filter(Boolean).join(", "));
    table.show(found);
  }
}

const age = (value) => (value < 1000 ? `${count(value)} ms` : span(value / 1000).replace(".0 s", " s"));

function matching(rows, needle) {
  if (!needle) return rows;
  const wanted = needle.toLowerCase();
  const has = (text) => text !== undefined && text !== null && String(text).toLowerCase().includes(wanted);
  return rows.filter((row) => has(row.user) || has(row.client_id) || has(row.client) || has(row.id) || has(row.session) || has(row.entity));
}

// A figure with a bar before it; `part` null: of nothing, so no bar.
function meter(cell, text, part) {
  if (!cell.firstChild) cell.append(element("span", { class: "meter" }, element("span"), element("span", { class: "text" })));
  const [box, words] = cell.firstChild.children;
  put(words, text);
  bar(box, part, part > 1 ? "bad" : part > 0.9 ? "warn" : "");
  box.classList.toggle("without", part === null);
}

const share = (row) => (row.limit > 0 ? row.requests_per_s / row.limit : 0);

const PRINCIPALS = [
  ...WHO,
  number("Connections", "connections"),
  number("Requests/s", "requests_per_s", rate, "in the last second"),
  number("Limit/s", "limit", (v) => (v === null || v === undefined ? "none" : rate(v)), "request_rate of the quota in force"),
  {
    label: "Used", hint: "requests/s of the limit", text: (row) => (row.limit > 0 ? `${count(share(row) * 100)} %` : NONE), value: share, number: true,
    draw: (cell, row, text) => meter(cell, text, row.limit > 0 ? share(row) : null),
  },
  { label: "Quota entity", text: (row) => named(row.entity), value: (row) => row.entity },
  { ...number("Throttled now", "throttled_now", count, "connections that are muted for it just now"), mark: (row) => (row.throttled_now ? "warn" : "") },
  { label: "Delay p50, ms", hint: "of throttled requests", number: true, text: (row) => ms(row.throttle_ms?.p50), value: (row) => row.throttle_ms?.p50 },
  { label: "p99, ms", hint: "of throttled requests", number: true, text: (row) => ms(row.throttle_ms?.p99), value: (row) => row.throttle_ms?.p99 },
  number("Throttled", "throttled", count, "requests, since the start"),
  number("Total delay", "throttle_total_ms", (v) => (v === null || v === undefined ? NONE : v ? span(v / 1000) : "0"), "since the start"),
];

const OLDEST = [
  { label: "Kind", text: (row) => named(row.kind), value: (row) => row.kind },
  api,
  ...WHO,
  { label: "Session", text: (row) => named(row.session) },
  { label: "Waits for", wide: true, text: (row) => named(row.waits_for) },
  number("Age, ms", "age_ms", ms),
];

const CONNECTIONS = [
  { label: "Id", number: true, text: (row) => named(row.id), value: (row) => row.id },
  { label: "Client", text: (row) => named(row.client), value: (row) => row.client },
  ...WHO,
  { label: "Node", text: (row) => (row.node === null || row.node === undefined ? "bootstrap" : String(row.node)), value: (row) => row.node },
  number("In flight", "in_flight", count, "requests without an answer yet"),
  number("To client", "client_unsent_bytes", bytes, "bytes that the client has not taken yet"),
  number("To broker", "broker_unsent_bytes", bytes, "bytes that the broker has not taken yet"),
  number("Kept", "carry_bytes", bytes, "bytes read and not passed on: parts of frames, and what lies behind a mute"),
  { label: "Muted", text: (row) => row.muted.join(", "), value: (row) => row.muted.join(" "), mark: (row) => (row.muted.length ? "warn" : "") },
  number("Open for", "age_s", span),
];

const NODES = [
  { label: "Node", text: (row) => (row.node === null || row.node === undefined ? "bootstrap" : String(row.node)), value: (row) => row.node ?? -1 },
  { label: "Port", number: true, text: (row) => named(row.port), value: (row) => row.port },
  { label: "Broker", text: (row) => named(row.address), value: (row) => row.address },
  number("Connections", "connections"),
];

const POOLS = [
  { label: "Pool", text: (row) => named(row.name) },
  {
    label: "Used", number: true, text: (row) => bytes(row.used_bytes),
    draw: (cell, row, text) => meter(cell, text, row.size_bytes ? row.used_bytes / row.size_bytes : null),
  },
  { label: "Size", number: true, text: (row) => (row.size_bytes === null || row.size_bytes === undefined ? "unbounded" : bytes(row.size_bytes)) },
  { label: "Depleted", hint: "share of the last time in which the pool was empty (MemoryPoolAvgDepletedPercent)", number: true, text: (row) => percent(row.depleted_percent), mark: (row) => (row.depleted_percent > 0 ? "warn" : "") },
  { label: "In all", hint: "since the start (MemoryPoolDepletedTimeTotal)", number: true, text: (row) => (row.depleted_ms ? span(row.depleted_ms / 1000) : "0") },
];

function decisionColumns(traceUrl) {
  return [
    { label: "Time", text: (row) => clockMs(row.ts_ms) },
    { label: "What", text: (row) => named(row.what), mark: (row) => TONES[row.what] || "" },
    api,
    ...WHO,
    number("Delay, ms", "ms", ms),
    { label: "Why", wide: true, text: (row) => named(row.detail) },
    {
      label: "Trace", text: (row) => row.trace_id || "",
      draw: (cell, row) => {
        if (!row.trace_id) return cell.replaceChildren();
        const words = row.trace_id.slice(0, 8);
        const url = linkTo(traceUrl(), row.trace_id);
        cell.replaceChildren(url
          ? element("a", { href: url, target: "_blank", rel: "noopener noreferrer", title: row.trace_id }, words)
          : element("code", { title: row.trace_id }, words));
      },
    },
  ];
}

// Only to the web: a template that is something else makes no link.
function linkTo(template, traceId) {
  if (!/^https?:\/\//i.test(template)) return null;
  return template.replaceAll("{trace_id}", encodeURIComponent(traceId));
}
