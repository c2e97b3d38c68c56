// Back closes what lies over the page: the drawer, a dialog, a menu. One entry of the history stands for
// all of them, and leaves with the last one.

const layers = []; // what closes each of them, the topmost last
let leaving = false; // the entry is being left

/** Let Back call `close`. Returns what to call once it is closed. */
export function lieOver(close) {
  layers.push(close);
  enter();
  return () => {
    const at = layers.lastIndexOf(close);
    if (at >= 0) layers.splice(at, 1);
    setTimeout(leave); // another layer or another view may follow
  };
}

/** Show a dialog that Back closes. */
export function showOver(dialog) {
  if (dialog.open) return;
  dialog.showModal();
  dialog.addEventListener("close", lieOver(() => dialog.close()), { once: true });
}

const isEntry = () => history.state?.over === true;

function enter() {
  if (!leaving && !isEntry()) history.pushState({ over: true }, "");
}

function leave() {
  if (leaving || layers.length || !isEntry()) return;
  leaving = true;
  history.back();
}

addEventListener("popstate", () => {
  const left = leaving;
  leaving = false;
  if (isEntry()) return leave(); // a view was opened from what lay over the page, and left again
  if (!left) layers.pop()?.();
  if (layers.length) enter();
});

history.scrollRestoration = "manual"; // otherwise Back moves the focus to the element that the address names
if (isEntry()) history.replaceState(null, ""); // the page was loaded again
