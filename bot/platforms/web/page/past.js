// Lines about past jobs, as in the history: the image, the text, and the button next to it.

import { make } from "./dom.js";

const SHOWS = "show"; // the command whose button is placed next to its line

/** Return whether a body has lines about past jobs. */
export const isPast = (body) => body.some((part) => part.job);

/** Make the row of a job that starts with `part`. Its text goes into `words`. */
export function pastRow(part) {
  const words = make("div", { className: "past-words" });
  const node = make("div", { className: "past", "data-job": part.job }, part.has_image ? seen(part) : null, words);
  return { node, words };
}

/** Make the box of an image. It leaves if the image no longer exists. */
function seen(part) {
  const place = make("div", { className: "past-image" });
  const image = make("img", { src: `past/${part.job}`, alt: "", loading: "lazy", decoding: "async" });
  image.onerror = () => place.remove();
  // Keyboards use the button next to it.
  image.addEventListener("click", () => place.parentNode.querySelector("button.button")?.click());
  place.append(image);
  return place;
}

/** Move buttons that show a job into the job's row in `body`; return the rows of all other buttons. */
export function placeShowButtons(body, rows, draw) {
  for (const old of body.querySelectorAll(".past > .button")) old.remove();
  return rows
    .map((row) => row.filter((button) => {
      const line = button.command === SHOWS && body.querySelector(`.past[data-job="${button.job}"]`);
      if (!line) return true;
      // The line already starts with the number at the label's end.
      const label = button.label.replace(/\s*\d+$/, "");
      line.append(draw({ ...button, label, hint: button.hint || button.label }));
      return false;
    }))
    .filter((row) => row.length);
}
