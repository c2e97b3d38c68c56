// Signing in and out, and whose words this browser keeps.

import { byId, recall, remember } from "./dom.js";
import { say } from "./texts.js";

const PERSON = "usher-person";

export function showSignIn() {
  byId("signin-title").textContent = say("signin_title");
  byId("signin-text").textContent = say("signin_text");
  byId("signin-label").textContent = say("signin_label");
  byId("signin-go").textContent = say("signin_go");
  byId("signin-error").textContent = location.hash === "#refused" ? say("signin_wrong") : "";
  byId("signin-form").onsubmit = (event) => {
    event.preventDefault();
    location.replace(`?token=${encodeURIComponent(byId("signin-token").value.trim())}`);
  };
  byId("signin-token").focus();
}

/**
 * Return whether what this browser keeps is the person's. If it is another's, it is forgotten, with what
 * `forget` adds, and the page starts over.
 */
export function owns(person, forget) {
  const before = [recall(PERSON), recall(PERSON, true)];
  const other = before.some((name) => name !== null && name !== person);
  if (other) forgetPerson(forget);
  for (const lasting of [false, true]) remember(PERSON, person, lasting);
  if (other) location.reload();
  return !other;
}

// Signing out, or in as somebody else, holds for all tabs of the browser.
addEventListener("storage", ({ key, newValue }) => {
  if (key !== PERSON || newValue !== null) return;
  sessionStorage.clear();
  location.reload();
});

/** Offer to sign out, which forgets the person in this browser, with what `forget` adds. */
export function showSignOut(offered, forget) {
  const button = byId("signout");
  button.hidden = !offered;
  button.textContent = say("sign_out");
  button.onclick = async () => {
    button.disabled = true;
    try {
      const answer = await fetch("signout", { method: "POST" });
      if (!answer.ok) throw new Error(String(answer.status));
      forgetPerson(forget);
      location.reload();
    } catch {
      button.disabled = false;
    }
  };
}

function forgetPerson(forget) {
  sessionStorage.clear();
  remember(PERSON, null, true);
  forget();
}
