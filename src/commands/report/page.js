(() => {
  "use strict";
  const SHOWN = 12;
  const input = document.getElementById("q");
  const found = document.getElementById("found");
  const cells = [...document.querySelectorAll("#map i")].map((cell) => [cell, cell.title.toLowerCase()]);
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = [];
    for (const [cell, text] of cells) {
      const match = words.every((word) => text.includes(word));
      cell.classList.toggle("off", !match);
      if (match) matches.push(cell.title);
    }
    found.replaceChildren();
    if (words.length === 0) return;
    const more = matches.length - SHOWN;
    found.append(`${matches.length} of ${cells.length} match` + (more > 0 ? `; the first ${SHOWN}:` : ""));
    const list = document.createElement("ul");
    for (const title of matches.slice(0, SHOWN)) {
      const item = document.createElement("li");
      item.textContent = title;
      list.append(item);
    }
    found.append(list);
  };
  input.addEventListener("input", search);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
  const asked = new URLSearchParams(location.hash.slice(1)).get("find");
  if (asked) {
    input.value = asked;
    search();
  }
})();
