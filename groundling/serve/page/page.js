// What the page begins with: its views, its theme, what it shows of work under way.

import { getJson } from "/api.js";
import { make } from "/draw.js";
import { PhotoView } from "/photo.js";
import { SearchView } from "/search.js";

const $ = (id) => document.getElementById(id);
const THEME = "groundling-theme";
const SOON = 400; // milliseconds after which work under way is named

let running = 0;

function message(text, wrong = false) {
  $("status").className = [wrong && "wrong", text && "shown"].filter(Boolean).join(" ");
  $("message").textContent = text;
}

/** Names the work if it takes a moment; what went wrong stays until it is closed or the next work begins. */
async function during(text, work) {
  message("");
  running += 1;
  $("busy").hidden = false;
  document.body.setAttribute("aria-busy", "true");
  const timer = setTimeout(() => message(text), SOON);
  let error = null;
  try {
    await work();
  } catch (caught) {
    error = caught;
  }
  clearTimeout(timer);
  running -= 1;
  if (!running) {
    $("busy").hidden = true;
    document.body.removeAttribute("aria-busy");
  }
  if (error && error.name !== "AbortError") message(error.message || String(error), true);
  else if (!$("status").classList.contains("wrong") && !running) message("");
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

const tabs = [...document.querySelectorAll("[role=tab]")];

function openTab(tab) {
  for (const one of tabs) {
    one.setAttribute("aria-selected", String(one === tab));
    one.tabIndex = one === tab ? 0 : -1;
    $(one.getAttribute("aria-controls")).hidden = one !== tab;
  }
}

function listenToTabs() {
  for (const tab of tabs) {
    tab.addEventListener("click", () => openTab(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
      next.focus();
      openTab(next);
    });
  }
}

/** How a folder of photos is reviewed and searched: links where the server has one, else the commands. */
function ownPhotos(about) {
  const code = (text) => make("code", {}, text);
  const link = (text, act) => make("a", { href: "#", on: { click: (event) => { event.preventDefault(); act(); } } }, text);
  const review = about.review ? [make("a", { href: "/review" }, "Review the labels"), " of this server’s folder. "] : ["Label a folder with ", code("groundling label"), ", then review it here: ", code("groundling serve --review LABELS"), ". "];
  const search = about.search ? [link("Search the photos", () => openTab($("tab-search"))), " of this server by what they show."] : ["Search it by what the photos show: ", code("groundling serve --index INDEX"), "."];
  $("own-photos").replaceChildren(...review, ...search);
}

theme();
$("dismiss").addEventListener("click", () => message(""));
const photo = new PhotoView(during, () => openTab($("tab-photo")));
new SearchView(during, (blob) => photo.open(blob));
listenToTabs();
during("", async () => {
  const about = await getJson("/v1/about");
  photo.examples(about.examples);
  photo.formats(about.formats);
  ownPhotos(about);
  $("review").hidden = !about.review;
  $("views").hidden = !about.search; // one view needs no tabs
});
