// Small pieces of the page. Text only ever enters through text nodes, never as markup.

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return made;
}

const byId = (id) => document.getElementById(id);

const TONES = ["cube", "vector", "memory", "l2", "launch", "aicpu", "host"];

function tone(name) {
  const key = name.toLowerCase().replace(/\W/g, "");
  return TONES.includes(key) ? key : "none";
}

const swatch = (name) => el("span", { class: `swatch tone-${tone(name)}` });

// A titled list of facts; entries are [label, text or node, wide?]. Empty ones are left out.
function facts(title, entries, action = null) {
  const list = el("dl");
  for (const [label, value, wide] of entries) {
    if (value === "" || value === null || value === undefined) continue;
    list.append(el("div", wide ? { class: "wide" } : {}, el("dt", {}, label), el("dd", {}, value)));
  }
  return [el("h4", {}, title), list, action].filter(Boolean);
}

function plainTable(titles, rows, numeric = []) {
  const kind = (i) => (numeric.includes(i) ? { class: "n" } : i === 0 ? { class: "name" } : {});
  const head = el("tr", {}, ...titles.map((t, i) => el("th", { scope: "col", ...kind(i) }, t)));
  const body = rows.map((cells) =>
    el("tr", {}, ...cells.map((c, i) => el("td", { ...kind(i), title: i === 0 && typeof c === "string" ? c : null }, c))),
  );
  return el("table", { class: "plain" }, el("thead", {}, head), el("tbody", {}, ...body));
}

function copyButtons() {
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      let done = false;
      try {
        await navigator.clipboard.writeText(code.textContent);
        done = true;
      } catch {
        done = document.execCommand("copy"); // file:// pages may lack the clipboard interface
      }
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => (button.textContent = "Copy"), 1600);
    });
  }
}
