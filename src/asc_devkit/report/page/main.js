// Tabs, the address behind #, printing, and building each panel when it is first seen.

const BUILDERS = { verdict: buildShares, accuracy: buildAccuracy, operators: buildOperators, roofline: buildRoofline, memory: buildMemory, rewrites: buildRewrites };
const BUILT = new Set();
const TABS = [...document.querySelectorAll('[role="tab"]')];
const PANELS = TABS.map((tab) => byId(tab.getAttribute("aria-controls")));

function build(id) {
  if (BUILT.has(id) || !DATA) return;
  BUILT.add(id);
  BUILDERS[id]?.();
}

function openPanel(id, focus = false) {
  const at = Math.max(0, PANELS.findIndex((panel) => panel.id === id));
  TABS.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === at));
    tab.tabIndex = i === at ? 0 : -1;
    PANELS[i].hidden = i !== at;
  });
  if (focus) TABS[at].focus();
  TABS[at].scrollIntoView({ block: "nearest", inline: "nearest" });
  if (location.hash.slice(1) !== PANELS[at].id) history.replaceState(null, "", `#${PANELS[at].id}`);
  build(PANELS[at].id);
}

TABS.forEach((tab, at) => {
  tab.addEventListener("click", () => openPanel(PANELS[at].id));
  tab.addEventListener("keydown", (e) => {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    openPanel(PANELS[(to + TABS.length) % TABS.length].id, true);
  });
});

const asked = () => location.hash.slice(1) || PANELS[0].id;
addEventListener("hashchange", () => openPanel(asked()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => PLOTS.forEach((plot) => plot.redraw()));

addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  PANELS.forEach((panel) => {
    panel.hidden = false;
    build(panel.id);
  });
  PLOTS.forEach((plot) => plot.redraw());
  TABLES.forEach((table) => table.draw(60));
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  openPanel(asked());
  TABLES.forEach((table) => table.draw());
  PLOTS.forEach((plot) => plot.redraw());
});

copyButtons();
openPanel(asked());
loadData().then(() => {
  const current = PANELS.find((panel) => !panel.hidden);
  build("verdict");
  build(current.id);
  document.documentElement.dataset.ready = "yes";
});
