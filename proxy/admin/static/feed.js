// Where the figures come from: GET v1/state once, then the events of v1/events, one a second.
//
// Rules:
// - Read with fetch, not with EventSource, which cannot send the token's header.
// - The stream is closed while the tab is hidden: a hidden page costs the proxy nothing.
// - What is silent for SILENT_MS is taken for dead; then it is tried again, ever more seldom up to LONGEST_MS.
// - The token is kept for this tab only, and taken out of the address at once.

const SILENT_MS = 6000;
const LONGEST_MS = 10000;
const KEY = "sluice-token";

export class Feed {
  // hears: { state(state), event(state), down(reason), ask(refused): Promise<token> }
  constructor(hears) {
    this.hears = hears;
    this.running = null;
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given !== null) {
      sessionStorage.setItem(KEY, given);
      history.replaceState(null, "", location.pathname + location.search);
    }
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
  }

  start() {
    if (this.running || document.hidden) return;
    this.running = new AbortController();
    this.run(this.running);
  }

  stop() {
    this.running?.abort();
    this.running = null;
  }

  // From the beginning: with all of the history.
  again() {
    this.stop();
    this.start();
  }

  async run(running) {
    let pauseMs = 500;
    while (!running.signal.aborted) {
      let reason = "the stream ended";
      try {
        const first = await this.get("v1/state", running.signal);
        this.hears.state(await first.json());
        pauseMs = 500;
        await this.listen(running);
      } catch (error) {
        if (running.signal.aborted) return;
        reason = error.message || String(error);
      }
      if (running.signal.aborted) return;
      this.hears.down(reason);
      await new Promise((wake) => setTimeout(wake, pauseMs));
      pauseMs = Math.min(LONGEST_MS, pauseMs * 2);
    }
  }

  async get(path, signal) {
    for (let refused = false; ; refused = true) {
      const token = sessionStorage.getItem(KEY);
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const answer = await fetch(path, { headers, signal, cache: "no-store" });
      if (answer.status === 401 || (answer.status === 403 && !refused)) {
        sessionStorage.setItem(KEY, await this.hears.ask(Boolean(token)));
        continue;
      }
      if (!answer.ok) throw new Error(`${path} answers ${answer.status}`);
      return answer;
    }
  }

  async listen(running) {
    // A silent stream is ended by itself, not the whole feed.
    const silence = new AbortController();
    const end = () => silence.abort();
    running.signal.addEventListener("abort", end);
    let timer = setTimeout(end, SILENT_MS);
    try {
      const answer = await this.get("v1/events", silence.signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(end, SILENT_MS);
        const events = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
        rest = events.pop();
        for (const event of events) this.hear(event);
      }
    } catch (error) {
      if (silence.signal.aborted && !running.signal.aborted) throw new Error(`silent for ${SILENT_MS / 1000} s`);
      throw error;
    } finally {
      clearTimeout(timer);
      running.signal.removeEventListener("abort", end);
    }
  }

  hear(event) {
    let name = "message";
    const data = [];
    for (const line of event.split("\n")) {
      if (line.startsWith("event:")) name = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    }
    if (name === "state" && data.length) this.hears.event(JSON.parse(data.join("\n")));
  }
}
