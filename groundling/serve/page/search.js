// Search in an index of labelled photos.

import { getBlob, getJson } from "/api.js";
import { PALETTE, Stage, make } from "/draw.js";

const $ = (id) => document.getElementById(id);

export class SearchView {
  constructor(during) {
    this.addresses = [];
    $("find").addEventListener("submit", (event) => {
      event.preventDefault();
      const query = $("query").value.trim();
      if (query) during("Searching …", () => this.search(query));
    });
  }

  async search(query) {
    const { hits } = await getJson(`/v1/search?query=${encodeURIComponent(query)}`);
    for (const address of this.addresses) URL.revokeObjectURL(address);
    this.addresses = [];
    $("hits").replaceChildren(...hits.map((hit) => this.card(hit)));
    if (!hits.length) $("hits").replaceChildren("Nothing was found.");
  }

  card(hit) {
    const place = make("div");
    const told = hit.boxes.map((found) => `${found.phrase} ${found.score.toFixed(2)}`).join(", ");
    const stage = new Stage(place, { label: `Where it is in ${hit.image}: ${told}` });
    getBlob(`/v1/search/file?image=${encodeURIComponent(hit.image)}`).then((blob) => {
      const address = URL.createObjectURL(blob);
      this.addresses.push(address);
      stage.show(address, false, hit.image);
      stage.size(...hit.size);
      stage.draw(hit.boxes.map((found, i) => ({ key: i, box: found.box, colour: PALETTE[i % PALETTE.length] })));
    }).catch((error) => place.replaceChildren(error.message));
    return make("article", { class: "card" }, place, make("p", { class: "help" }, `${hit.image}: ${told}`));
  }
}
