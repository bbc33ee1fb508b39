// Where the page of a review gets its labels and keeps its decisions: the server that gave it.

import { getBlob, getJson, postJson } from "/api.js";

const pictures = new Map(); // image -> address, while it is being fetched too

function picture(image) {
  if (!pictures.has(image)) {
    const coming = getBlob(`/v1/review/picture?image=${encodeURIComponent(image)}`).then(URL.createObjectURL);
    coming.catch(() => pictures.delete(image)); // to be asked for again
    pictures.set(image, coming);
  }
  return pictures.get(image);
}

const theme = localStorage.getItem("groundling-theme");
if (theme) document.documentElement.dataset.theme = theme;
const home = document.createElement("a"); // to the page of photos; the page of a file has none
home.href = "/";
home.className = "home";
home.textContent = "← groundling";
document.querySelector("header").prepend(home);
window.groundlingStore = {
  load: () => getJson("/v1/review"),
  picture,
  keep: (all, changed) => postJson("/v1/review", changed),
};
