// Search in an index of labelled photos.

import { getBlob, getJson } from "/api.js";
import { PALETTE, Stage, make } from "/draw.js";

const SIMILAR = 0.5; // cosine of query and label; others are shown apart
const $ = (id) => document.getElementById(id);

export class SearchView {
  /** `open(blob)` shows a photo in the view of one photo. */
  constructor(during, open) {
    this.during = during;
    this.open = open;
    this.addresses = [];
    $("find").addEventListener("submit", (event) => {
      event.preventDefault();
      const query = $("query").value.trim();
      if (query) during("Searching …", () => this.search(query));
      else $("query").focus();
    });
  }

  async search(query) {
    $("hits").replaceChildren();
    $("search-state").textContent = "";
    const { hits } = await getJson(`/v1/search?query=${encodeURIComponent(query)}`);
    for (const address of this.addresses) URL.revokeObjectURL(address);
    this.addresses = [];
    const [similar, others] = [hits.filter((hit) => hit.score >= SIMILAR), hits.filter((hit) => hit.score < SIMILAR)];
    const heading = similar.length && others.length ? [make("h2", {}, "Less similar")] : [];
    $("hits").replaceChildren(...similar.map((hit) => this.card(hit)), ...heading, ...others.map((hit) => this.card(hit)));
    const found = hits.length === 1 ? "One photo" : `${hits.length} photos`;
    $("search-state").textContent = hits.length ? `${found}, the best match first.` : `No photo matches “${query}”. Try fewer or other words.`;
  }

  card(hit) {
    const parent = make("div");
    const phrases = hit.boxes.map((match) => match.phrase).join(", ");
    const stage = new Stage(parent, { label: `Boxes in ${hit.image}: ${phrases}` });
    const button = make("button", { type: "button", disabled: true }, "Open");
    button.setAttribute("aria-label", `Open ${hit.image}`);
    getBlob(`/v1/search/file?image=${encodeURIComponent(hit.image)}`).then((blob) => {
      const address = URL.createObjectURL(blob);
      this.addresses.push(address);
      stage.show(address, false, hit.image);
      stage.size(...hit.size);
      stage.draw(hit.boxes.map((match, i) => ({ key: i, box: match.box, name: match.phrase, colour: PALETTE[i % PALETTE.length] })));
      button.addEventListener("click", () => this.open(blob));
      button.disabled = false;
    }).catch((error) => parent.replaceChildren(make("p", { class: "help" }, error.message)));
    const score = make("span", { class: "help" }, `similarity ${hit.score.toFixed(2)}`);
    const text = make("div", {}, make("p", { class: "name" }, hit.image), make("p", { class: "help" }, phrases), make("p", {}, score));
    return make("article", { class: "card" }, parent, make("div", { class: "about" }, text, button));
  }
}
