// Lines about past jobs, as in the history: the image, the words, and the button beside them.

import { make } from "./dom.js";

const SHOWS = "show"; // the command whose button stands beside its line

/** Return whether a body has lines about past jobs. */
export const isPast = (body) => body.some((part) => part.job);

/** Make the row of a job that `part` heads; its words go into `words`. */
export function pastRow(part) {
  const words = make("div", { className: "past-words" });
  const node = make("div", { className: "past", "data-job": part.job }, seen(part), words);
  return { node, words };
}

/** Make the place of an image. It stays empty where the image is gone by now. */
function seen(part) {
  const place = make("div", { className: "past-image" });
  if (!part.has_image) return place;
  const image = make("img", { src: `/past/${part.job}`, alt: "", loading: "lazy", decoding: "async" });
  image.onerror = () => image.remove();
  // The button beside it is there for keyboards.
  image.addEventListener("click", () => place.parentNode.querySelector("button.button")?.click());
  place.append(image);
  return place;
}

/** Put buttons that show a job into its row under `body`, and return the rows of all others. */
export function besideQueues(body, rows, draw) {
  for (const old of body.querySelectorAll(".past > .button")) old.remove();
  return rows
    .map((row) => row.filter((button) => {
      const line = button.command === SHOWS && body.querySelector(`.past[data-job="${button.job}"]`);
      if (!line) return true;
      // The number it ends with begins the line already.
      const label = button.label.replace(/\s*\d+$/, "");
      line.append(draw({ ...button, label, hint: button.hint || button.label }));
      return false;
    }))
    .filter((row) => row.length);
}
