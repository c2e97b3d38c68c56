// The side bar: links to the views. On a narrow page it is a drawer over the content.

import { byId, make } from "./dom.js";
import { lieOver } from "./over.js";
import { say } from "./texts.js";

const NARROW = matchMedia("(max-width: 899px)");

export class Side {
  constructor() {
    this.side = byId("side");
    this.side.setAttribute("aria-label", say("side"));
    byId("side-open").setAttribute("aria-label", say("side_open"));
    byId("side-open").addEventListener("click", () => this.open());
    byId("side-close").setAttribute("aria-label", say("side_close"));
    byId("side-close").addEventListener("click", () => this.close());
    byId("side-shade").addEventListener("click", () => this.close());
    addEventListener("hashchange", () => this.close());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.target.closest?.(".menu, dialog")) this.close(); // what lies over it first
    });
    NARROW.addEventListener("change", () => this.close());
    this.close();
  }

  /** Add a link to a view. */
  addView(name, label) {
    const link = make("a", { className: "side-link", href: `#${name}`, "data-opens": name }, label);
    byId("side-views").append(make("li", {}, link));
  }

  open() {
    this.side.classList.add("opened");
    this.closed = lieOver(() => this.close());
    this.side.inert = false;
    byId("stage").inert = true; // it is covered
    byId("side-shade").hidden = false;
    byId("side-close").focus();
  }

  close() {
    const had = this.side.contains(document.activeElement);
    this.side.classList.remove("opened");
    this.side.inert = NARROW.matches; // a closed drawer has no tab stops
    byId("stage").inert = false;
    byId("side-shade").hidden = true;
    if (had && NARROW.matches) byId("side-open").focus();
    this.closed?.();
    this.closed = null;
  }
}
