"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const el = (tag, text, name) => { const node = document.createElement(tag); if (text !== undefined) node.textContent = text; if (name) node.className = name; return node; };
page.append(el("h1", `Training after ${data.step} steps: ${data.alerts.length} alerts`));
for (const a of data.alerts.slice(-50).reverse()) page.append(el("div", `step ${a.step}: ${a.kind} ${a.name}: ${a.rule} (${a.value}, ${a.expected} before)`, "alert"));
const filter = document.createElement("input"), kind = document.createElement("select"), grid = el("div", undefined, "grid"), more = el("p");
filter.placeholder = "filter by name"; filter.id = "filter";
for (const k of ["all", ...new Set(data.curves.map((c) => c.kind))]) kind.append(el("option", k));
const alarmed = new Set(data.alerts.map((a) => a.kind + " " + a.name));
const SVG = "http://www.w3.org/2000/svg";
const fill = () => {
  const found = data.curves.filter((c) => (kind.value === "all" || c.kind === kind.value) && c.name.includes(filter.value));
  found.sort((a, b) => alarmed.has(b.kind + " " + b.name) - alarmed.has(a.kind + " " + a.name));
  grid.replaceChildren(...found.slice(0, 200).map((c) => {
    const card = el("div", undefined, "card"), svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 260 80"); svg.setAttribute("preserveAspectRatio", "none");
    const points = c.points.filter((p) => typeof p[1] === "number").map((p) => [p[0], Math.log10(Math.max(1e-12, p[1]))]);
    if (points.length) {
      const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
      const x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
      const line = document.createElementNS(SVG, "polyline");
      line.setAttribute("points", points.map((p) => `${4 + 252 * (p[0] - x0) / Math.max(1, x1 - x0)},${76 - 72 * (p[1] - y0) / Math.max(1e-3, y1 - y0)}`).join(" "));
      line.setAttribute("fill", "none"); line.setAttribute("stroke", alarmed.has(c.kind + " " + c.name) ? "#d33" : "#2563eb");
      svg.append(line);
    }
    const last = c.points.length ? c.points[c.points.length - 1][1] : "";
    card.append(el("b", c.name), svg, el("div", `${c.kind}: norm ${typeof last === "number" ? last.toPrecision(4) : last}`));
    return card;
  }));
  more.textContent = `${Math.min(200, found.length)} of ${found.length} shown`;
};
filter.oninput = fill; kind.onchange = fill;
page.append(el("h2", "Norms over the steps (logarithmic)"), filter, kind, more, grid);
fill();
setTimeout(() => { if (!filter.value) location.reload(); }, 30000);
