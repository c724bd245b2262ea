// The dashboard: a feed of states, panels that show them, and the few controls of the page itself.

import { Charts } from "./chart.js";
import { put } from "./dom.js";
import { Feed } from "./feed.js";
import { CHARTS, Panels } from "./panels.js";
import { clock, span } from "./words.js";

const at = (id) => document.getElementById(id);
const root = document.documentElement;

const panels = new Panels();
const charts = new Charts(at("charts"), CHARTS, (seconds) => put(at("shown"), `and the last ${span(seconds)}`));
let state = null;
let paused = false;
let link = "connecting";

function draw() {
  if (state && !paused) panels.show(state, at("find").value.trim());
  header();
}

function header() {
  const draining = state?.now.draining;
  const mode = link !== "live" ? link : draining ? "draining" : "serving";
  put(at("mode"), mode);
  const tone = { serving: "ok", draining: "warn", "not connected": "bad" }[mode] || "";
  const name = `badge ${tone}`.trim();
  if (at("mode").className !== name) at("mode").className = name;
  root.classList.toggle("stale", link !== "live");
  const title = mode === "serving" ? "Sluice" : `Sluice: ${mode}`;
  if (document.title !== title) document.title = title;
}

function told(text) {
  put(at("link"), text);
}

const feed = new Feed({
  state(fresh) {
    state = fresh;
    link = "live";
    told("");
    charts.start(fresh.history || []);
    draw();
  },
  event(fresh) {
    state = fresh;
    link = "live";
    if (!paused) told("");
    if (fresh.point && !paused) charts.add(fresh.point);
    draw();
  },
  down(reason) {
    link = "not connected";
    const last = state ? ` The figures are of ${clock(state.now.ts_ms)}.` : "";
    told(`Not connected (${reason}). Trying again.${last}`);
    header();
  },
  ask,
});

function ask(refused) {
  const dialog = at("ask");
  if (refused) put(at("why"), "The token was refused. It is the content of the file named by admin.token_file.");
  link = "token required";
  header();
  at("token").value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(at("token").value.trim()), { once: true });
  });
}

// -- the controls -------------------------------------------------------------------------------

at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  put(at("pause"), paused ? "Go on" : "Pause");
  if (paused) told(`Paused at ${state ? clock(state.now.ts_ms) : "the start"}.`);
  else feed.again();
});

at("find").addEventListener("input", () => {
  if (state) panels.show(state, at("find").value.trim());
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("ask").open) return;
  const typing = event.target.matches("input, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    at("find").focus();
  } else if (event.key === "Escape" && event.target === at("find")) {
    at("find").value = "";
    at("find").dispatchEvent(new Event("input"));
    at("find").blur();
  }
});

const THEMES = ["system", "light", "dark"];

function wear(theme) {
  if (theme === "system") root.removeAttribute("data-theme");
  else root.dataset.theme = theme;
  put(at("theme"), `Theme: ${theme}`);
}

at("theme").addEventListener("click", () => {
  const worn = THEMES.indexOf(root.dataset.theme || "system");
  const theme = THEMES[(worn + 1) % THEMES.length];
  localStorage.setItem("sluice-theme", theme);
  wear(theme);
});

const kept = localStorage.getItem("sluice-theme");
wear(THEMES.includes(kept) ? kept : "system");
feed.start();
