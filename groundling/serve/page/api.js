// Requests to the server that gave this page, and to no other.

import { make } from "/draw.js";

const KEY = "groundling-token";

/** Ends with the server's own words. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the server answered ${status}`);
    this.status = status;
    this.kind = (problem.type || "").split(":").pop();
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers }).catch(() => {
    throw new Error("The server does not answer: does it still run?");
  });
  if (answer.ok) return answer;
  if (answer.status === 401) {
    await askForToken();
    return ask(path, options);
  }
  throw new Refused(answer.status, await answer.json().catch(() => ({})));
}

let asking = null; // requests that are refused meanwhile wait for the same answer

function askForToken() {
  asking ||= new Promise((done) => {
    const field = make("input", { id: "token", type: "password", autocomplete: "off", required: true });
    const label = make("label", { htmlFor: "token" }, "This server asks for its token.");
    const row = make("p", { class: "row" }, field, make("button", { value: "ok" }, "Use it"));
    const dialog = make("dialog", { id: "ask-token" }, make("form", { method: "dialog" }, label, row));
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, field.value.trim());
      dialog.remove();
      asking = null;
      done();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

export const getJson = async (path) => (await ask(path)).json();
export const getBlob = async (path) => (await ask(path)).blob();
export const postJson = async (path, row) =>
  (await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(row) })).json();

/** A photo or clip that questions are asked about. Its bytes are sent once, and again only if the server forgot it. */
export class Media {
  constructor(blob) {
    this.blob = blob;
    this.clip = blob.type.startsWith("video/");
    this.id = "";
  }

  async ask(name, row = {}) {
    if (!this.id) await this.send();
    try {
      return await postJson(`/v1/${name}`, { image_id: this.id, ...row });
    } catch (error) {
      if (error.kind !== "unknown-image") throw error;
      await this.send();
      return postJson(`/v1/${name}`, { image_id: this.id, ...row });
    }
  }

  async send() {
    this.id = (await this.regions("words=0")).image.id;
  }

  /** Asked with its bytes. */
  async regions(query) {
    const type = this.clip || this.blob.type.startsWith("image/") ? this.blob.type : "image/unknown";
    return (await ask(`/v1/regions?${query}`, { method: "POST", headers: { "Content-Type": type }, body: this.blob })).json();
  }
}
