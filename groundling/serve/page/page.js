// What the page begins with: its views, its theme, what it says of work under way.

import { getJson } from "/api.js";
import { PhotoView } from "/photo.js";
import { SearchView } from "/search.js";

const $ = (id) => document.getElementById(id);
const THEME = "groundling-theme";

/** Shows the message while the work lasts; what went wrong stays until the next work begins. */
async function during(message, work) {
  const status = $("status");
  status.className = "";
  status.textContent = message;
  document.body.setAttribute("aria-busy", "true");
  try {
    await work();
    status.textContent = "";
  } catch (error) {
    status.className = "wrong";
    status.textContent = error.message || String(error);
  } finally {
    document.body.removeAttribute("aria-busy");
  }
}

function theme() {
  const kept = localStorage.getItem(THEME);
  if (kept) document.documentElement.dataset.theme = kept;
  $("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem(THEME, document.documentElement.dataset.theme);
  });
}

function tabs() {
  const all = [...document.querySelectorAll("[role=tab]")];
  const open = (tab) => {
    for (const one of all) {
      one.setAttribute("aria-selected", String(one === tab));
      one.tabIndex = one === tab ? 0 : -1;
      $(one.getAttribute("aria-controls")).hidden = one !== tab;
    }
  };
  for (const tab of all) {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const shown = all.filter((one) => !one.hidden);
      const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
      next.focus();
      open(next);
    });
  }
}

theme();
const photo = new PhotoView(during);
new SearchView(during);
tabs();
during("", async () => {
  const about = await getJson("/v1/about");
  photo.examples(about.examples);
  photo.formats(about.formats);
  $("review").hidden = !about.review;
  $("tab-search").hidden = !about.search;
  $("views").hidden = !about.search; // one view needs no choice
});
