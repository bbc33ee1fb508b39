// Requests to the server that gave this page, and to no other.

import { make } from "/draw.js";

const TOKEN = "groundling-token";
const RETRIES = 5; // when the server is busy (503)

/** An error with the server's own explanation. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ? sentenceCase(problem.detail) : `The server responded with status ${status}.`);
    this.status = status;
    this.kind = (problem.type || "").split(":").pop();
  }
}

const sentenceCase = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function request(path, options = {}, retries = RETRIES) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not respond. Is it still running? Start it again with: groundling serve");
  });
  if (response.ok) return response;
  if (response.status === 401) {
    await tokenFromUser();
    return request(path, options, retries);
  }
  if (response.status === 503 && retries > 0) {
    await pause(Math.min(5, Number(response.headers.get("Retry-After")) || 1));
    options.signal?.throwIfAborted();
    return request(path, options, retries - 1);
  }
  throw new Refused(response.status, await response.json().catch(() => ({})));
}

let pending = null; // requests that are refused meanwhile wait for the same token

function tokenFromUser() {
  pending ||= new Promise((done) => {
    const field = make("input", { id: "token", type: "password", autocomplete: "off", required: true });
    const label = make("label", { htmlFor: "token" }, "This server needs its token. Whoever started the server has it.");
    const row = make("p", { class: "row" }, field, make("button", { value: "ok", class: "primary" }, "Use it"));
    const dialog = make("dialog", { id: "token-dialog" }, make("form", { method: "dialog" }, label, row));
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, field.value.trim());
      dialog.remove();
      pending = null;
      done();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return pending;
}

export const getJson = async (path) => (await request(path)).json();
export const getBlob = async (path) => (await request(path)).blob();
export const postJson = async (path, row, signal) =>
  (await request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(row), signal })).json();

/** A photo or clip. Its bytes are sent once, and again only if the server does not have its regions any more. */
export class Media {
  constructor(blob) {
    this.blob = blob;
    this.clip = blob.type.startsWith("video/");
    this.id = "";
    this.abort = new AbortController();
  }

  /** Nobody waits for responses about this photo any more. */
  close() {
    this.abort.abort();
  }

  async request(name, row = {}) {
    if (!this.id) await this.send();
    try {
      return await postJson(`/v1/${name}`, { image_id: this.id, ...row }, this.abort.signal);
    } catch (error) {
      if (error.kind !== "unknown-image") throw error;
      await this.send();
      return postJson(`/v1/${name}`, { image_id: this.id, ...row }, this.abort.signal);
    }
  }

  async send() {
    this.id = (await this.regions("words=0")).image.id;
  }

  /** A request with its bytes. */
  async regions(query) {
    const type = this.clip || this.blob.type.startsWith("image/") ? this.blob.type : "image/unknown";
    const options = { method: "POST", headers: { "Content-Type": type }, body: this.blob, signal: this.abort.signal };
    return (await request(`/v1/regions?${query}`, options)).json();
  }
}
