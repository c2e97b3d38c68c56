// The files of the message being written: chosen, pasted or dropped, uploaded at once, and shown above the text.

import { byId, make, sizeText } from "./dom.js";
import { say } from "./texts.js";

export class Attachments {
  /**
   * `on` has `notice(text)`, `focus()`, which focuses the text, `changed(image)`, which is told whether there
   * is an image among the files, and `connected()`.
   */
  constructor(on) {
    this.on = on;
    this.limits = { max_upload: Infinity, max_files: 4 };
    this.files = [];
    byId("attach").setAttribute("aria-label", say("attach"));
    byId("attach").title = say("attach");
    byId("attach").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", () => {
      this.attach([...byId("file").files]);
      byId("file").value = "";
    });
    byId("text").addEventListener("paste", (event) => this.attachFrom(event, event.clipboardData));
    this.listenForDrops();
  }

  listenForDrops() {
    byId("drop").textContent = say("drop");
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      byId("drop").hidden = false;
    });
    addEventListener("dragleave", (event) => event.relatedTarget === null && (byId("drop").hidden = true));
    addEventListener("drop", (event) => {
      byId("drop").hidden = true;
      if (hasFiles(event)) this.attachFrom(event, event.dataTransfer);
    });
  }

  /** Return why the files can't be sent yet, or nothing. */
  get hindrance() {
    const broken = this.files.find((file) => file.failed);
    return broken?.failed ?? (this.files.some((file) => !file.upload) ? say("wait_for_upload") : null);
  }

  /** Return the files, their uploads and the addresses of their images, and start again without files. */
  take() {
    const { files } = this;
    this.files = [];
    this.draw();
    return { files, uploads: files.map((file) => file.upload), images: files.map((file) => file.url).filter(Boolean) };
  }

  /** Upload files again that the server no longer has. Resolves to their uploads, or to null. */
  async again(files) {
    return await Promise.all(files.map((attached) => sent(attached))).catch(() => null);
  }

  attachFrom(event, data) {
    const files = [...(data?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.attach(files);
  }

  attach(files) {
    for (const file of files) {
      if (this.files.length >= this.limits.max_files) {
        this.on.notice(say("too_many_files", { count: this.limits.max_files }));
        break;
      }
      const name = file.name || say("image");
      if (file.size > this.limits.max_upload) {
        this.on.notice(say("upload_too_large", { name, size: sizeText(this.limits.max_upload) }));
        continue;
      }
      const url = file.type.startsWith("image/") ? URL.createObjectURL(file) : null;
      const attached = { name, url, file, upload: null, failed: null, waits: false };
      this.files.push(attached);
      this.upload(attached);
    }
    this.draw();
    this.on.focus();
  }

  async upload(attached) {
    try {
      attached.upload = await sent(attached);
      if (byId("notice").textContent === say("wait_for_upload")) this.on.notice("");
    } catch (error) {
      if (error instanceof TypeError && !this.on.connected()) { // the server did not answer
        attached.waits = true;
      } else {
        attached.failed = say("upload_failed", { name: attached.name });
        this.on.notice(attached.failed);
      }
    }
    this.draw();
  }

  /** Retry uploads that failed without a connection. */
  resume() {
    for (const attached of this.files.filter(({ waits }) => waits)) {
      attached.waits = false;
      this.upload(attached);
    }
  }

  draw() {
    this.on.changed(this.files.some((file) => file.url));
    byId("attached").hidden = this.files.length === 0;
    byId("attached").replaceChildren(...this.files.map((file) => this.fileNode(file)));
  }

  fileNode(file) {
    const off = make("button", { type: "button", className: "icon", textContent: "×",
      "aria-label": say("remove_file", { name: file.name }) });
    off.addEventListener("click", () => {
      if (file.url) URL.revokeObjectURL(file.url);
      this.files = this.files.filter((kept) => kept !== file);
      this.on.notice("");
      this.draw();
      this.on.focus();
    });
    const state = file.failed ? "failed" : file.upload ? "done" : "busy";
    const label = state === "busy" ? say("uploading", { name: file.name }) : file.name;
    const shown = file.url
      ? make("img", { src: file.url, alt: label })
      : make("span", { className: "name" }, file.name);
    return make("li", { className: state, title: label }, shown, off);
  }
}

/** Send a file to the server. Resolves to its upload. */
async function sent({ name, file }) {
  const answer = await fetch("upload", {
    method: "POST",
    headers: {
      "Content-Type": file.type || "application/octet-stream",
      "X-File-Name": encodeURIComponent(name.toWellFormed()),
    },
    body: file,
  });
  if (!answer.ok) throw new Error(String(answer.status));
  return (await answer.json()).id;
}
