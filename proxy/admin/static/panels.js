// What each part of the page shows of a state (GET /v1/state).
//
// Only the visible sections, and those close to them, are drawn; a section is drawn when it is scrolled to.

import { bar, element, hide, put } from "./dom.js";
import { Bars, Pairs } from "./lists.js";
import { Table } from "./table.js";
import { NONE, byteRate, bytes, clock, clockMs, count, ms, named, pair, percent, plain, rate, span } from "./words.js";

const MUTES = {
  THROTTLED: "over a quota, until it is within the quota again",
  HELD: "a policy holds a request of this client",
  OUT_OF_MEMORY: "the memory pool is empty",
  BACKPRESSURE: "the other side does not read fast enough",
  UPSTREAM_AUTH: "the client authenticates",
  UPSTREAM_REAUTH: "Sluice renews its authentication at the broker",
  DRAINING: "the proxy is shutting down",
  ENDING: "the connection is about to end",
  IN_FLIGHT: "the maximum number of requests is in flight",
  PACED: "its bytes are limited to a rate",
};

const OUTCOMES = [
  ["condition", "Condition met", "a policy woke the request"],
  ["expired", "Expired", "the deadline was reached"],
  ["drained", "Drained", "ended by a shutdown"],
  ["client_gone", "Client gone", "the client closed its connection"],
  ["broker_gone", "Broker gone", "the broker closed its connection"],
  ["closed", "Closed", "Sluice closed the connection for another reason"],
];

const TONES = { throttled: "warn", held: "note", expired: "bad", refused: "bad", failed: "bad", slow: "warn", observed: "note" };

const wholeBytes = (v) => bytes(v).replace(".0 ", " ");
const lag = (v) => (v === null || v === undefined ? NONE : `${ms(v)} ms`);

export const CHARTS = [
  { key: "requests_per_s", floor: 10, label: "Requests/s", text: rate, hint: "Requests from clients, per second" },
  { key: "errors_per_s", floor: 1, label: "Errors/s", text: rate, hint: "Requests that no broker answered: it was silent, or the connection ended", tone: (v) => (v > 0 ? "bad" : "") },
  { key: "throttled_per_s", floor: 1, label: "Throttled/s", text: rate, hint: "Requests that were delayed, or whose client was throttled, per second", tone: (v) => (v > 0 ? "warn" : "") },
  { key: "bytes_in_per_s", floor: 1024, binary: true, label: "Bytes in", text: byteRate, axis: wholeBytes, hint: "Bytes from clients, per second" },
  { key: "bytes_out_per_s", floor: 1024, binary: true, label: "Bytes out", text: byteRate, axis: wholeBytes, hint: "Bytes to clients, per second" },
  { key: "connections", floor: 10, label: "Connections", text: count, hint: "Clients connected" },
  { key: "parked", floor: 10, label: "Parked", text: count, hint: "Requests that policies hold in the purgatory" },
  { key: "pool_used_bytes", floor: 1 << 20, binary: true, label: "Pool used", text: bytes, axis: wholeBytes, hint: "Bytes held in the memory pools" },
  { key: "loop_lag_p99_ms", floor: 10, label: "Loop lag p99", text: lag, hint: "Delay of the tasks of the event loop", tone: (v) => (v > 100 ? "bad" : v > 50 ? "warn" : "") },
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
      label: "Principals", key: (row) => `${row.heads ? row.limit.quota : ""}\u0000${row.user}\u0000${row.client_id}`, columns: PRINCIPALS,
      heads: (row) => row.heads, member: (row) => row.shared,
      empty: "No client is connected. Point a client's bootstrap.servers at this proxy.",
    });
    this.oldest = new Table(at("t-oldest"), {
      label: "Requests waiting longest", key: (row) => `${row.session}\u0000${row.kind}\u0000${row.api}`, columns: OLDEST,
      empty: "No request waits.", few: 6,
    });
    this.connections = new Table(at("t-connections"), {
      label: "Connections", key: (row) => String(row.id), columns: CONNECTIONS, empty: "No connection is open.",
    });
    this.nodes = new Table(at("t-nodes"), {
      label: "Brokers", key: (row) => String(row.node), columns: NODES, empty: "No broker is known yet.",
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
      const rows = grouped(state.principals, state.buckets, needle ? Infinity : FIRST);
      this.showTable(this.principals, "n-principals", rows, needle, "the throttled, then the busiest; clients that share a quota together", state.principals.length);
    }
    else if (section === "purgatory") this.showPurgatory(state.purgatory, needle);
    else if (section === "connections") {
      // They are sorted by id, so that they do not jump; muted ones come first.
      const rows = [...state.connections].sort((a, b) => (b.muted.length > 0) - (a.muted.length > 0));
      this.showTable(this.connections, "n-connections", rows, needle,
        state.connections_total > rows.length ? "the muted and the busiest" : "", state.connections_total);
    } else if (section === "brokers") this.nodes.show(state.nodes);
    else if (section === "decisions") this.showTable(this.decisions, "n-decisions", state.decisions, needle, "newest first");
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
    const { spans, usage_rows: rows } = now.dropped;
    this.process.show([
      ["Resident memory", rss, limit && now.rss_bytes > 0.9 * limit ? "bad" : ""],
      ["CPU, of one core", percent(now.cpu_percent), now.cpu_percent > 90 ? "warn" : ""],
      ["Loop lag p50 / p99", `${ms(lag.p50)} / ${ms(lag.p99)} ms`, lag.p99 > 100 ? "bad" : lag.p99 > 50 ? "warn" : ""],
      ["Spans dropped", count(spans), spans ? "warn" : "", "traces that were not exported: too many, or no collector"],
      ["Usage rows dropped", count(rows), rows ? "warn" : "", "rows that are missing in the usage log"],
    ]);
    this.pools.show(now.pools);
    const muted = Object.entries(now.muted).sort(([, a], [, b]) => b - a);
    this.muted.show(
      muted.map(([reason, n]) => ({ label: plain(reason), value: n, text: count(n), hint: MUTES[reason], tone: reason === "OUT_OF_MEMORY" && n ? "bad" : "" })),
      now.connections,
    );
    hide(this.at("unmuted"), muted.length > 0);
  }

  showPurgatory(purgatory, needle) {
    const { holds, produces, fetches, watched, timers, ages, outcomes } = purgatory;
    put(this.at("n-purgatory"), `${count(holds + produces + fetches)} waiting`);
    this.parked.show([
      ["Held requests", count(holds), "", "a policy holds them before they are forwarded"],
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
      needle ? `${count(listed(found))} of ${count(listed(rows))} listed match` : count(total),
      total > rows.length && !needle ? `${count(listed(rows))} of them listed` : "",
      rows.length ? order : "",
    ];
    put(this.at(aside), words.filter(Boolean).join(", "));
    table.show(found);
  }
}

const age = (value) => (value < 1000 ? `${count(value)} ms` : span(value / 1000).replace(".0 s", " s"));

const listed = (rows) => rows.reduce((n, row) => n + !row.heads, 0);

function matching(rows, needle) {
  if (!needle) return rows;
  const wanted = needle.toLowerCase();
  const has = (text) => text !== undefined && text !== null && String(text).toLowerCase().includes(wanted);
  return rows.filter((row) => has(row.user) || has(row.client_id) || has(row.client) || has(row.id) || has(row.session) || has(row.limit?.entity));
}

// A figure with a bar before it; `part` null: of nothing, so no bar.
function meter(cell, text, part) {
  if (!cell.firstChild) cell.append(element("span", { class: "meter" }, element("span"), element("span", { class: "text" })));
  const [box, words] = cell.firstChild.children;
  put(words, text);
  bar(box, part, part > 1 ? "bad" : part > 0.9 ? "warn" : "");
  box.classList.toggle("without", part === null);
}

// The rows in their order: clients that share a bucket follow a line for the bucket, throttled ones first.
// Of a group only the `first` few are there before the table is opened (`rest`).
export function grouped(principals, buckets, first) {
  const groups = new Map();
  principals.forEach((row, at) => {
    const key = row.bucket ?? `alone ${at}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  });
  const held = (rows) => rows.some((row) => row.throttled_now || buckets[row.bucket]?.wait_ms);
  const rows = [];
  for (const group of [...groups.values()].sort((a, b) => held(b) - held(a))) {
    const limit = buckets[group[0].bucket] ?? null;
    if (group.length > 1) rows.push(head(group, limit));
    group.forEach((row, at) => rows.push({ ...row, limit, shared: group.length > 1, rest: at >= first && group.length > 1 }));
  }
  return rows;
}

const FIRST = 3;
const SUMMED = ["connections", "requests_per_s", "bytes_in_per_s", "bytes_out_per_s", "errors", "throttled_now", "throttled", "throttle_total_ms"];

function head(group, limit) {
  const sums = SUMMED.map((field) => [field, group.reduce((sum, row) => sum + row[field], 0)]);
  return { ...Object.fromEntries(sums), heads: true, user: "", client_id: limit.entity, clients: group.length, limit };
}

const QUOTAS = { request_rate: "requests", producer_byte_rate: "in", consumer_byte_rate: "out" };

const limited = ({ limit }) => {
  if (!limit) return "none";
  return limit.quota === "request_rate" ? `${rate(limit.limit)}/s` : `${byteRate(limit.limit)} ${QUOTAS[limit.quota] ?? plain(limit.quota)}`;
};

// How long a request that comes now would wait, and how many are held already.
const waits = ({ limit }) => {
  if (!limit || !(limit.wait_ms || limit.waiting)) return limit ? "0" : NONE;
  const long = limit.wait_ms < 1000 ? `${ms(limit.wait_ms)} ms` : span(limit.wait_ms / 1000);
  return limit.waiting ? `${long}, ${count(limit.waiting)} held` : long;
};

const used = (row) => (row.limit ? row.limit.used_percent / 100 : null);

const PRINCIPALS = [
  {
    label: "Client id", text: (row) => (row.heads ? `${named(row.client_id)}, ${count(row.clients)} clients` : named(row.client_id)), value: (row) => row.client_id,
  },
  { label: "User", text: (row) => (row.heads ? "" : named(row.user)), value: (row) => row.user },
  number("Requests/s", "requests_per_s", rate, "in the last second"),
  number("In", "bytes_in_per_s", byteRate, "bytes from the client, in the last second"),
  number("Out", "bytes_out_per_s", byteRate, "bytes to the client, in the last second"),
  { label: "p50 / p99, ms", hint: "broker time of the last 30 to 60 seconds, without long polls and group rebalances", number: true, text: (row) => pair(row.latency_ms), value: (row) => row.latency_ms?.p99 },
  { ...number("Errors", "errors", count, "requests that the broker did not answer, since the start"), mark: (row) => (row.errors ? "bad" : "") },
  { label: "Limit", hint: "the quota that limits the client first: requests, bytes in or bytes out", number: true, text: limited, value: (row) => row.limit?.limit, mark: (row) => (row.shared ? "quiet" : "") },
  {
    label: "Used", hint: "use of the limit by all clients that share it; at 100 % further requests wait", text: (row) => (row.limit ? percent(Math.round(row.limit.used_percent)) : NONE), value: used, number: true,
    draw: (cell, row, text) => meter(cell, text, row.shared ? null : used(row)), mark: (row) => (row.shared ? "quiet" : ""),
  },
  { label: "Wait", hint: "how long a request that arrives now waits, and how many are held", number: true, text: waits, value: (row) => row.limit?.wait_ms, mark: (row) => (row.shared ? "quiet" : row.limit?.wait_ms ? "warn" : "") },
  { ...number("Throttled now", "throttled_now", count, "connections that are muted for it just now"), mark: (row) => (row.throttled_now ? "warn" : "") },
  { label: "Delay p50 / p99, ms", hint: "of throttled requests", number: true, text: (row) => pair(row.throttle_ms), value: (row) => row.throttle_ms?.p99 },
  number("Throttled", "throttled", count, "requests, since the start"),
  number("Total delay", "throttle_total_ms", (v) => (v === null || v === undefined ? NONE : v ? span(v / 1000) : "0"), "since the start"),
  number("Connections", "connections"),
  { label: "Quota entity", text: (row) => named(row.limit?.entity), value: (row) => row.limit?.entity ?? "" },
];

const OLDEST = [
  { label: "Kind", text: (row) => named(row.kind), value: (row) => row.kind },
  api,
  ...WHO,
  { label: "Session", text: (row) => named(row.session) },
  { label: "Waits for", wide: true, text: (row) => named(row.waits_for) },
  number("Age, ms", "age_ms", ms),
];

const version = (tls) => (tls ? tls.split(" ")[0].replace("TLSv", "") : "plain");

const CONNECTIONS = [
  { label: "Id", number: true, text: (row) => named(row.id), value: (row) => row.id },
  { label: "Client", text: (row) => named(row.client), value: (row) => row.client },
  ...WHO,
  { label: "Proof", hint: "how the user was proved: tls, sasl and its mechanism, token (checked here), claim (of a token that the broker accepted), config (a fixed name)", text: (row) => named(row.proof || row.principal_source), value: (row) => row.proof || row.principal_source },
  { label: "TLS", hint: "of the client's connection / of the broker's", text: (row) => `${version(row.client_tls)} / ${version(row.broker_tls)}`, value: (row) => row.client_tls },
  { label: "Node", text: (row) => (row.node === null || row.node === undefined ? "bootstrap" : String(row.node)), value: (row) => row.node },
  number("In flight", "in_flight", count, "requests without an answer yet"),
  number("To client", "client_unsent_bytes", bytes, "bytes that the client has not taken yet"),
  number("To broker", "broker_unsent_bytes", bytes, "bytes that the broker has not taken yet"),
  number("Kept", "carry_bytes", bytes, "bytes read and not passed on: parts of frames, and what lies behind a mute"),
  { label: "Muted", text: (row) => row.muted.map(plain).join(", "), value: (row) => row.muted.join(" "), mark: (row) => (row.muted.length ? "warn" : "") },
  number("Open for", "age_s", span),
];

// Whether it answers, in a word or two.
function health(row) {
  if (row.silent_ms) return `silent for ${span(row.silent_ms / 1000)}`;
  if (row.heard_ago_ms !== null && row.heard_ago_ms !== undefined) return row.heard_ago_ms < 10_000 ? "answers" : "idle";
  if (row.latency_ms?.p50 !== null && row.latency_ms?.p50 !== undefined) return "idle"; // heard before anybody looked
  return row.dial_failures && !row.connections ? "not reached" : row.connections ? "not heard yet" : "not connected";
}

const NODES = [
  { label: "Node", text: (row) => (row.node === null || row.node === undefined ? "bootstrap" : String(row.node)), value: (row) => row.node ?? -1 },
  { label: "Broker", text: (row) => named(row.address), value: (row) => row.address },
  { label: "Health", hint: "silent: it sends nothing while answers are due", text: health, mark: (row) => (row.silent_ms || health(row) === "not reached" ? "bad" : "") },
  number("Answers/s", "answers_per_s", rate, "in the last seconds"),
  { label: "p50 / p99, ms", hint: "broker time of the last 30 to 60 seconds, without long polls and group rebalances", number: true, text: (row) => pair(row.latency_ms), value: (row) => row.latency_ms?.p99 },
  number("In", "bytes_in_per_s", byteRate, "bytes from clients for it, in the last second"),
  number("Out", "bytes_out_per_s", byteRate, "bytes from it, in the last second"),
  { ...number("Errors", "errors", count, "requests that it did not answer, since the start"), mark: (row) => (row.errors ? "bad" : "") },
  { ...number("Failed dials", "dial_failures", count, "since the start"), mark: (row) => (row.dial_failures ? "bad" : "") },
  { ...number("Lost", "lost", count, "connections that it broke off, or that ended because it answered nothing or nonsense, since the start"), mark: (row) => (row.lost ? "bad" : "") },
  number("Connections", "connections"),
  { label: "Port", number: true, text: (row) => named(row.port), value: (row) => row.port },
];

const POOLS = [
  { label: "Pool", text: (row) => named(row.name) },
  {
    label: "Used", number: true, text: (row) => bytes(row.used_bytes),
    draw: (cell, row, text) => meter(cell, text, row.size_bytes ? row.used_bytes / row.size_bytes : null),
  },
  { label: "Size", number: true, text: (row) => (row.size_bytes === null || row.size_bytes === undefined ? "unbounded" : bytes(row.size_bytes)) },
  { label: "Depleted", hint: "share of the last 30 seconds in which the pool was empty (MemoryPoolAvgDepletedPercent)", number: true, text: (row) => percent(row.depleted_percent), mark: (row) => (row.depleted_percent > 0 ? "warn" : "") },
  { label: "Total", hint: "since the start (MemoryPoolDepletedTimeTotal)", number: true, text: (row) => (row.depleted_ms ? span(row.depleted_ms / 1000) : "0") },
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
