// The history: one's past jobs, searched by their words, to be shown or repeated.

import { make } from "./dom.js";
import { keyed, write } from "./keyed.js";
import { moment } from "./moments.js";
import { say } from "./texts.js";

const TYPING_MS = 300;

export class HistoryPanel {
  constructor(on) {
    this.on = on;
    this.rows = [];
    this.search = make("input", { type: "search", className: "panel-search", maxLength: 200, "aria-label": say("panel_search"), placeholder: say("panel_search") });
    this.search.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.opened() ?? on.read(), TYPING_MS);
    });
    this.list = make("ul", { className: "panel-list" });
    this.none = make("p", { className: "dim", hidden: true, role: "status" });
    this.more = make("button", { type: "button", className: "button", hidden: true }, say("panel_older"));
    this.more.addEventListener("click", () => this.older());
    this.node = make("div", {}, this.search, this.list, this.none, this.more);
  }

  /** Begin again with the newest jobs. */
  opened() {
    this.fresh = true;
  }

  address(before = "") {
    return `panels/history?${new URLSearchParams({ before, search: this.search.value.trim() })}`;
  }

  /** Draw the newest jobs, and keep the older ones that were read before. */
  draw({ jobs, before }) {
    const kept = this.fresh || !jobs.length ? [] : this.rows.filter((row) => row.job < jobs.at(-1).job);
    if (!kept.length) this.before = before;
    this.fresh = false;
    this.show([...jobs, ...kept]);
  }

  async older() {
    const address = this.address(this.before);
    this.more.setAttribute("aria-busy", "true");
    const answer = await fetch(address).catch(() => null);
    this.more.removeAttribute("aria-busy");
    if (!answer?.ok || address !== this.address(this.before)) return;
    const { jobs, before } = await answer.json();
    this.before = before;
    this.show([...this.rows, ...jobs]);
  }

  show(rows) {
    this.rows = rows;
    keyed(this.list, rows, (row) => row.job, (row) => new PastCard(row, this.on));
    this.more.hidden = this.before === null;
    this.none.hidden = rows.length > 0;
    write(this.none, rows.length ? "" : say(this.search.value.trim() ? "panel_none_found" : "panel_no_history"));
  }
}

class PastCard {
  constructor({ job, model, words, at }, on) {
    this.image = make("div", { className: "past-image" });
    this.gone = false;
    this.state = make("span", { className: "panel-chip" });
    this.showing = make("button", { type: "button", className: "button", "aria-label": say("panel_show", { job }) }, say("panel_show_short"));
    this.showing.addEventListener("click", () => on.run("show", job));
    const again = make("button", { type: "button", className: "button", "aria-label": say("panel_again", { job }) }, say("panel_again_short"));
    again.addEventListener("click", () => on.run("again", job));
    this.job = job;
    this.node = make("li", { className: "panel-card panel-past" }, this.image,
      make("div", { className: "panel-words" },
        make("p", {}, words),
        make("div", { className: "panel-head dim" }, make("span", {}, `#${job} · ${model} · `, moment({ at, clock: true })), this.state),
        make("div", { className: "button-row" }, this.showing, again)));
  }

  draw({ state, state_words: words, has_image: drawn, shows }) {
    this.state.dataset.state = state;
    write(this.state, words);
    this.showing.hidden = !shows;
    this.image.hidden = !drawn || this.gone;
    if (this.image.hidden || this.image.firstChild) return;
    const image = make("img", { src: `past/${this.job}`, alt: "", loading: "lazy", decoding: "async" });
    image.onerror = () => {
      image.remove();
      this.image.hidden = this.gone = true; // it expired, or was deleted
    };
    this.image.append(image);
  }
}
