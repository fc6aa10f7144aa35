"use strict";
// The embedded data (report/view.py makes it) and how its numbers read.

let DATA = null;

async function loadData() {
  const holder = document.getElementById("data");
  if (holder.dataset.packed !== "yes") {
    DATA = JSON.parse(holder.textContent);
    return;
  }
  const bytes = Uint8Array.from(atob(holder.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  DATA = JSON.parse(await new Response(stream).text());
}

const word = (place) => DATA.texts[place];
const finite = (v) => typeof v === "number";
const three = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));

function scaled(value, steps, unit) {
  if (!finite(value)) return value ?? "unknown";
  for (const [size, name] of steps) if (value >= size) return `${three(value / size)} ${name}`;
  return `${three(value)} ${unit}`;
}

const show = {
  us: (v) => scaled(v, [[1e6, "s"], [1e3, "ms"]], "us"),
  bytes: (v) => (finite(v) && v < 1024 ? `${v} B` : scaled(v, [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]], "B")),
  si: (v) => scaled(v, [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]], ""),
  share: (v) => (finite(v) ? `${(100 * v).toFixed(v < 0.0995 ? 2 : 1)} %` : v ?? ""),
  small: (v) => (finite(v) ? (v === 0 ? "0" : Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5 ? String(Number(v.toPrecision(3))) : v.toExponential(2)) : v ?? ""),
  count: (v) => (finite(v) ? v.toLocaleString("en") : v ?? ""),
  cosine: (v) => (!finite(v) ? v ?? "" : v < 1 && v.toFixed(7) === "1.0000000" ? "> 0.9999999" : v.toFixed(7)),
};

// Text numbers sort and draw as what they mean.
const amount = (v) => (finite(v) ? v : v === "inf" || v === "nan" ? Infinity : v === "-inf" ? -Infinity : null);
