// What the passes changed: counts per pass, and every rewrite with the operators before and after.

function buildRewrites() {
  const holder = byId("pass-table");
  if (!holder) return;
  const rows = DATA.rewrites, count = rows.pass?.length ?? 0;
  const text = (key) => (i) => word(rows[key][i]);
  const column = { title: "Pass", width: 280, value: text("pass"), show: text("pass"), search: true, choose: true };
  const table = new Table("rewrite-table", {
    label: "rewrites", count, sort: null,
    columns: [
      column,
      { title: "Before", width: 520, value: text("before"), show: text("before"), search: true },
      { title: "After", width: 380, value: text("after"), show: (i) => text("after")(i) || el("i", {}, "removed"), search: true },
    ],
    pick: (i) => byId("rewrite-detail").replaceChildren(...facts(text("pass")(i), [["Before", text("before")(i), true], ["After", text("after")(i) || "removed", true]])),
  });
  const passes = plainTable(["Pass", "Kind", "Matched", "Changed"], DATA.passes.map(([name, group, matched, applied]) => [word(name), word(group), show.count(matched), show.count(applied)]), [2, 3]);
  passes.querySelectorAll("tbody tr").forEach((row, at) => {
    const name = word(DATA.passes[at][0]);
    if (![...column.box.options].some((o) => o.value === name)) return;
    row.tabIndex = 0;
    const choose = () => {
      const on = row.getAttribute("aria-selected") !== "true";
      passes.querySelectorAll("tr[aria-selected]").forEach((r) => r.removeAttribute("aria-selected"));
      if (on) row.setAttribute("aria-selected", "true");
      table.choose(column, on ? name : "\0");
    };
    row.addEventListener("click", choose);
    row.addEventListener("keydown", (e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), choose()));
  });
  holder.replaceChildren(el("div", { class: "scroll" }, passes));
}
