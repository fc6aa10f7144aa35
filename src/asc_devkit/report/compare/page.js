"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const SVG = "http://www.w3.org/2000/svg";
  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick" || key === "oninput") node[key] = value;
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };
  const draw = (tag, attributes, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "style") node.style.cssText = value;
      else node.setAttribute(key, value);
    }
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const number = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : value.toPrecision(5).replace(/\.?0+(e|$)/, "$1");
  };
  const rows = data.tensors;
  const numeric = (value) => (typeof value === "number" ? value : value === "Infinity" ? Infinity : NaN);
  const blamed = new Map(data.findings.map((f) => [f.name, f]));

  page.append(
    el("h1", {}, "Accuracy comparison ", el("span", { class: "verdict " + (data.passed ? "pass" : "fail") }, data.passed ? "PASS" : "FAIL")),
    el("div", { class: "muted" }, `golden ${data.golden.path} (${data.golden.kind}), target ${data.target.path} (${data.target.kind}), standard ${data.standard.name}`),
  );
  const tiles = el("div", { class: "tiles" });
  for (const [key, value] of Object.entries(data.summary)) {
    if (value !== null) tiles.append(el("div", { class: "tile" }, el("b", {}, String(value)), key.replaceAll("_", " ")));
  }
  page.append(tiles);
  for (const note of data.notes) page.append(el("p", { class: "warning" }, note));
  for (const problem of data.problems) page.append(el("p", { class: "error" }, `${problem.code}: ${problem.what}`));

  if (data.findings.length) {
    page.append(el("h2", {}, "Operators to blame"));
    const body = el("tbody");
    for (const f of data.findings) {
      const row = rows.find((r) => r.name === f.name || r.op === f.op);
      const line = el("tr", { class: "row" }, el("td", {}, f.op), el("td", {}, f.op_type), el("td", {}, f.kind), el("td", {}, f.why), el("td", {}, f.advice));
      if (row) line.addEventListener("click", () => detail(row));
      body.append(line);
    }
    page.append(el("table", { id: "findings" }, el("thead", {}, el("tr", {}, ...["operator", "type", "kind", "why", "what to do"].map((t) => el("th", {}, t)))), body));
  }

  const model = data.model;
  if (model) page.append(el("p", { id: "model", class: model.limited === "bug" ? "error" : model.limited === "dtype" ? "pass" : "warning" }, `${model.limited}: ${model.statement}`));
  if (model && model.around) {
    page.append(el("h2", {}, "Around the first operator to blame"));
    const faulty = new Set(model.operators.filter((o) => o.faulty_runs > 0).map((o) => o.op));
    const known = new Map(model.operators.map((o) => [o.op, o]));
    const columns = [...new Set(model.around.nodes.map((n) => n.column))].sort((a, b) => a - b);
    const spot = new Map(), taken = new Map();
    for (const n of model.around.nodes) {
      const c = columns.indexOf(n.column), r = taken.get(c) || 0;
      taken.set(c, r + 1);
      spot.set(n.name, [c * 170 + 10, r * 46 + 10]);
    }
    const high = Math.max(...taken.values()) * 46 + 10;
    const svg = draw("svg", { viewBox: `0 0 ${columns.length * 170} ${high}`, id: "graph", style: `max-width:${columns.length * 170}px` });
    for (const [a, b] of model.around.edges) {
      const [x1, y1] = spot.get(a), [x2, y2] = spot.get(b);
      svg.append(draw("path", { d: `M${x1 + 150},${y1 + 17} C${x1 + 170},${y1 + 17} ${x2 - 20},${y2 + 17} ${x2},${y2 + 17}`, fill: "none", stroke: "#8888" }));
    }
    for (const n of model.around.nodes) {
      const [x, y] = spot.get(n.name), o = known.get(n.name);
      const box = draw("g", { class: "node" });
      const fill = faulty.has(n.name) ? "#d33" : o && o.verdict === "cancels" ? "#c80" : o ? "#2a7" : "#888";
      box.append(draw("rect", { x, y, width: 150, height: 34, rx: 4, fill: "none", stroke: fill, "stroke-width": n.column === 0 ? 3 : 1.5 }),
        draw("text", { x: x + 6, y: y + 14 }, n.op_type.slice(0, 22)), draw("text", { x: x + 6, y: y + 28, class: "muted" }, n.name.length > 22 ? "…" + n.name.slice(-21) : n.name),
        draw("title", {}, o ? `${n.name}: own error ${number(o.local_error)}, inherited ${number(o.inherited)}, ${o.statement}` : `${n.name}: not executed`));
      const row = rows.find((r) => n.tensors.includes(r.name) || r.op === n.name);
      if (row) box.addEventListener("click", () => detail(row));
      svg.append(box);
    }
    page.append(svg);
  }

  const along = rows.filter((r) => r.metrics && r.side !== "input");
  if (along.length > 1) {
    page.append(el("h2", {}, "Error along the graph (relative Euclidean distance, logarithmic)"));
    const width = 1100, height = 220, left = 50;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, id: "along" });
    const level = (r) => Math.max(-9, Math.min(1, Math.log10(Math.max(1e-9, Number.isFinite(numeric(r.metrics.relative_euclidean)) ? numeric(r.metrics.relative_euclidean) : 10))));
    const x = (i) => left + (i * (width - left - 10)) / Math.max(1, along.length - 1);
    const y = (v) => 10 + ((1 - v) * (height - 30)) / 10;
    for (let power = -9; power <= 1; power += 2) {
      svg.append(draw("line", { x1: left, x2: width, y1: y(power), y2: y(power), stroke: "#8883" }), draw("text", { x: 4, y: y(power) + 4 }, `1e${power}`));
    }
    svg.append(draw("polyline", { points: along.map((r, i) => `${x(i)},${y(level(r))}`).join(" "), fill: "none", stroke: "#2563eb" }));
    along.forEach((r, i) => {
      const bad = blamed.has(r.name);
      const dot = draw("circle", { cx: x(i), cy: y(level(r)), r: bad ? 5 : 2.5, fill: bad ? "#d33" : r.level === "error" ? "#c80" : "#2563eb" });
      dot.append(draw("title", {}, `${r.name}: ${number(r.metrics.relative_euclidean)}`));
      dot.addEventListener("click", () => detail(r));
      svg.append(dot);
    });
    page.append(svg);
  }

  const place = el("div", { id: "detail" });
  const bars = (pairs, label) => {
    const top = Math.max(1, ...pairs.map((p) => p[1]));
    const svg = draw("svg", { viewBox: `0 0 600 130`, style: "max-width:600px" });
    const step = 580 / Math.max(1, pairs.length);
    pairs.forEach(([low, count], i) => {
      const h = 90 * (Math.log1p(count) / Math.log1p(top));
      const bar = draw("rect", { x: 10 + i * step, y: 100 - h, width: Math.max(1, step - 1), height: h, fill: "#2563eb" });
      bar.append(draw("title", {}, `from ${number(low)}: ${count}`));
      svg.append(bar);
    });
    svg.append(draw("text", { x: 10, y: 118 }, number(pairs[0][0])), draw("text", { x: 520, y: 118 }, number(pairs[pairs.length - 1][0])), draw("text", { x: 230, y: 128 }, label));
    return svg;
  };
  const index = (flat, shape) => {
    const found = [];
    for (let i = shape.length - 1; i >= 0; i--) { found.unshift(flat % shape[i]); flat = Math.floor(flat / shape[i]); }
    return `[${found.join(", ")}]`;
  };
  const detail = (row) => {
    place.replaceChildren();
    const box = el("div", { class: "detail" }, el("h2", {}, row.name));
    box.append(el("p", { class: row.level }, row.reasons.join("; ") || row.level));
    if (row.cause) box.append(el("p", {}, el("b", {}, row.cause.kind), ": " + row.cause.evidence + ". " + row.cause.advice));
    const m = row.metrics;
    if (m) {
      const plain = Object.entries(m).filter(([, v]) => typeof v !== "object" || v === null);
      const half = el("table");
      for (let i = 0; i < plain.length; i += 3) {
        half.append(el("tr", {}, ...plain.slice(i, i + 3).flatMap(([k, v]) => [el("td", { class: "muted" }, k.replaceAll("_", " ")), el("td", { class: "number" }, number(v))])));
      }
      box.append(half);
      if (m.error_histogram.length) box.append(bars(m.error_histogram, "absolute error, octaves"));
      if (m.ulp_histogram.length) box.append(bars(m.ulp_histogram, "error in units in the last place, octaves"));
      if (m.worst.length) {
        const worst = el("table", {}, el("tr", {}, ...["place", "expected", "found"].map((t) => el("th", {}, t))));
        for (const w of m.worst) worst.append(el("tr", {}, el("td", {}, index(w.index, row.shape)), el("td", {}, number(w.expected)), el("td", {}, number(w.actual))));
        box.append(worst);
      }
      const map = (data.pictures || {})[row.name];
      if (map) box.append(el("p", { class: "muted" }, `errors over the tensor's root mean square, from 0.001 (faint) to 1 (full); ${map.rows} rows by ${map.columns} columns of [${map.shape.join(", ")}]`), heat(map));
    }
    place.append(box);
    box.scrollIntoView({ block: "nearest" });
  };
  const heat = (map) => {
    const high = map.values.length, wide = map.values[0].length, cell = Math.max(2, Math.floor(560 / wide));
    const svg = draw("svg", { viewBox: `0 0 ${wide * cell} ${high * cell}`, class: "heat", style: `max-width:${wide * cell}px` });
    svg.append(draw("rect", { x: 0, y: 0, width: wide * cell, height: high * cell, fill: "none", stroke: "#8886" }));
    map.values.forEach((line, r) => line.forEach((v, c) => {
      if (v > 0) svg.append(draw("rect", { x: c * cell, y: r * cell, width: cell, height: cell, fill: "#d33", "fill-opacity": v }));
    }));
    return svg;
  };

  page.append(el("h2", {}, "Tensors"));
  const filter = el("input", { type: "search", placeholder: "filter by name, type, cause", id: "filter" });
  const levels = el("select", { id: "level" }, ...["all", "error", "warning", "pass", "unreadable"].map((t) => el("option", { value: t }, t)));
  const head = [["level", (r) => r.level], ["name", (r) => r.name], ["type", (r) => r.op_type], ["dtype", (r) => r.dtype], ["cause", (r) => (r.cause ? r.cause.kind : "")],
    ["cosine", (r) => (r.metrics ? r.metrics.cosine : null)], ["rel. Euclid", (r) => (r.metrics ? r.metrics.relative_euclidean : null)], ["max abs", (r) => (r.metrics ? r.metrics.max_abs : null)],
    ["max rel", (r) => (r.metrics ? r.metrics.max_rel : null)], ["failing", (r) => r.failing]];
  const body = el("tbody");
  const more = el("p", { class: "muted" });
  let order = null, down = false;
  const SHOWN = 500;
  const fill = () => {
    const text = filter.value.toLowerCase(), level = levels.value;
    let found = rows.filter((r) => (level === "all" || r.level === level) && (!text || `${r.name} ${r.op_type} ${r.cause ? r.cause.kind : ""}`.toLowerCase().includes(text)));
    if (order !== null) {
      const get = head[order][1];
      found = [...found].sort((p, q) => {
        const a = get(p), b = get(q);
        const c = typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""));
        return down ? -c : c;
      });
    }
    body.replaceChildren(...found.slice(0, SHOWN).map((r) => {
      const line = el("tr", { class: "row" }, ...head.map(([, get], i) => el("td", { class: i === 0 ? r.level : i > 4 ? "number" : "" }, number(get(r)))));
      line.addEventListener("click", () => detail(r));
      return line;
    }));
    more.textContent = found.length > SHOWN ? `${SHOWN} of ${found.length} shown; narrow the filter to see others` : `${found.length} tensors`;
  };
  filter.oninput = fill;
  levels.oninput = fill;
  const titles = el("tr", {}, ...head.map(([name], i) => {
    const cell = el("th", { class: i > 4 ? "number" : "" }, name);
    cell.addEventListener("click", () => { down = order === i ? !down : false; order = i; fill(); });
    return cell;
  }));
  page.append(el("div", { class: "bar" }, filter, levels), more, el("table", { id: "tensors" }, el("thead", {}, titles), body), place);
  for (const [side, names] of [["golden", data.only_golden], ["target", data.only_target]]) {
    if (names.length) page.append(el("h2", {}, `Only on the ${side} side (${names.length})`), el("p", {}, names.slice(0, 200).join(", ") + (names.length > 200 ? ", ..." : "")));
  }
  fill();
})();
