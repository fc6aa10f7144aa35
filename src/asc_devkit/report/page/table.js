// A sortable, searchable table that keeps only the visible rows in the document, however many there are.

const ROW = 30;
const SPARE = 8;
const TABLES = [];

class Table {
  // columns: {title, width, value(i), show(i), numeric, search, choose}; value sorts, choose makes a filter of its values.
  constructor(id, { columns, count, label, sort, pick }) {
    Object.assign(this, { columns, count, pick, sort, picked: -1, choices: new Map(), words: null });
    this.root = byId(id);
    this.search = el("input", { type: "search", placeholder: "Search", "aria-label": `Search ${label}`, oninput: () => this.refresh() });
    this.total = el("output");
    this.body = el("tbody");
    this.view = el("div", { class: "view", tabindex: "0", onscroll: () => this.draw(), onkeydown: (e) => this.#key(e) });
    this.head = columns.map((column, at) => this.#header(column, at));
    const table = el("table", { role: "grid", "aria-label": label }, el("thead", {}, el("tr", {}, ...this.head)), this.body);
    table.style.minWidth = `${columns.reduce((sum, c) => sum + c.width, 0)}px`;
    this.table = table;
    this.view.append(table);
    this.body.addEventListener("click", (e) => {
      const row = e.target.closest("tr.row");
      if (row) this.select(Number(row.dataset.row));
    });
    this.root.replaceChildren(el("div", { class: "filters" }, this.search, ...this.#selects(), this.total), this.view);
    new ResizeObserver(() => this.draw()).observe(this.view);
    TABLES.push(this);
    this.refresh();
  }

  #header(column, at) {
    const button = el("button", { type: "button", onclick: () => this.#sortBy(at) }, column.title);
    const cell = el("th", { scope: "col", class: column.numeric ? "n" : null, title: column.help ?? null }, button);
    cell.style.width = `${column.width}px`;
    return cell;
  }

  #selects() {
    return this.columns.filter((c) => c.choose).map((column) => {
      const counts = new Map();
      for (let i = 0; i < this.count; i++) counts.set(column.value(i), (counts.get(column.value(i)) ?? 0) + 1);
      const options = [...counts].sort((a, b) => b[1] - a[1]).map(([v, n]) => el("option", { value: v }, `${v || "none"} (${n})`));
      const box = el("select", { "aria-label": column.title, onchange: () => this.choose(column, box.value) },
        el("option", { value: "\0" }, `${column.title}: all`), ...options);
      column.box = box;
      return box;
    });
  }

  choose(column, value) {
    if (value === "\0") this.choices.delete(column);
    else this.choices.set(column, value);
    column.box.value = value;
    this.refresh();
  }

  #sortBy(at) {
    const [column, down] = this.sort ?? [-1, false];
    this.sort = column !== at ? [at, Boolean(this.columns[at].numeric)] : down === Boolean(this.columns[at].numeric) ? [at, !down] : null;
    this.refresh();
  }

  refresh() {
    const wanted = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length && !this.words) {
      const searched = this.columns.filter((c) => c.search);
      this.words = Array.from({ length: this.count }, (_, i) => searched.map((c) => c.value(i)).join("\n").toLowerCase());
    }
    this.order = [];
    for (let i = 0; i < this.count; i++) {
      if (wanted.length && !wanted.every((w) => this.words[i].includes(w))) continue;
      let fits = true;
      for (const [column, value] of this.choices) fits &&= column.value(i) === value;
      if (fits) this.order.push(i);
    }
    this.#order();
    this.total.textContent = this.order.length === this.count ? `${show.count(this.count)} rows` : `${show.count(this.order.length)} of ${show.count(this.count)} rows`;
    this.view.scrollTop = 0;
    this.draw();
  }

  #order() {
    this.head.forEach((cell, at) => {
      if (this.sort?.[0] === at) cell.setAttribute("aria-sort", this.sort[1] ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    if (!this.sort) return;
    const [at, down] = this.sort;
    const keys = new Map(this.order.map((i) => [i, this.columns[at].value(i)]));
    const compare = (a, b) => {
      const x = keys.get(a), y = keys.get(b);
      if (x === null || y === null) return (x === null) - (y === null) || a - b; // unknown values come last
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1) || a - b;
    };
    this.order.sort(compare);
  }

  draw(most = null) {
    const shown = most ?? Math.ceil((this.view.clientHeight || 560) / ROW) + 2 * SPARE;
    const first = most ? 0 : Math.max(0, Math.min(Math.floor(this.view.scrollTop / ROW) - SPARE, this.order.length - shown));
    const rows = this.order.slice(first, first + shown).map((i, offset) => this.#row(i, first + offset));
    const spacer = (count) => {
      const row = el("tr", { "aria-hidden": "true" });
      row.style.height = `${count * ROW}px`;
      return row;
    };
    const below = most ? 0 : Math.max(0, this.order.length - first - shown);
    if (!this.order.length) rows.push(el("tr", { class: "empty" }, el("td", { colspan: this.columns.length }, "Nothing matches.")));
    this.body.replaceChildren(...(first ? [spacer(first)] : []), ...rows, ...(below ? [spacer(below)] : []));
    this.table.setAttribute("aria-rowcount", this.order.length + 1);
  }

  #row(i, place) {
    const cells = this.columns.map((column) => {
      const content = column.show(i);
      return el("td", { class: column.numeric ? "n" : null, title: typeof content === "string" && content.length > 12 ? content : null }, content);
    });
    return el("tr", { class: "row", "data-row": i, "aria-rowindex": place + 2, "aria-selected": i === this.picked ? "true" : "false" }, ...cells);
  }

  select(i, quiet = false) {
    this.picked = i;
    const place = this.order.indexOf(i);
    if (place >= 0) {
      const top = place * ROW, room = this.view.clientHeight - 2 * ROW;
      if (top < this.view.scrollTop) this.view.scrollTop = top;
      else if (top > this.view.scrollTop + room) this.view.scrollTop = top - room;
    }
    this.draw();
    if (!quiet) this.pick(i);
  }

  #key(event) {
    const page = Math.floor(this.view.clientHeight / ROW) - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || event.target !== this.view || !this.order.length) return;
    event.preventDefault();
    const from = this.order.indexOf(this.picked);
    this.select(this.order[Math.min(Math.max(from + step, 0), this.order.length - 1)]);
  }
}
