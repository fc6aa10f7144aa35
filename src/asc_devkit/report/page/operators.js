// The table of operators and the details of one; other charts select in it.

let OPERATOR_TABLE = null;

const opWord = (key) => (i) => word(DATA.operators[key][i]);
const opShare = (i) => (DATA.total_us ? DATA.operators.us[i] / DATA.total_us : 0);

function buildOperators() {
  const rows = DATA.operators, count = rows.name?.length ?? 0;
  if (!rows.us || !byId("operator-table")) return;
  const figure = (key, format) => ({ numeric: true, value: (i) => amount(rows[key][i]), show: (i) => String(format(rows[key][i])) });
  const text = (key, width, title, more = {}) => ({ title, width, value: opWord(key), show: opWord(key), ...more });
  OPERATOR_TABLE = new Table("operator-table", {
    label: "operators", count, sort: [3, true],
    columns: [
      { title: "#", width: 60, numeric: true, value: (i) => i, show: (i) => String(i + 1) },
      text("name", 250, "Operator", { search: true }),
      text("type", 150, "Type", { search: true, choose: true }),
      { title: "Time", width: 92, ...figure("us", show.us) },
      { title: "80 % interval", width: 160, numeric: true, value: (i) => rows.hi80[i] - rows.lo80[i], show: (i) => `${show.us(rows.lo80[i])} – ${show.us(rows.hi80[i])}` },
      { title: "Share", width: 78, numeric: true, value: opShare, show: (i) => show.share(opShare(i)) },
      { title: "Bound by", width: 106, choose: true, value: opWord("bound_by"), show: (i) => el("span", {}, swatch(opWord("bound_by")(i)), opWord("bound_by")(i)) },
      text("engine", 92, "Engine", { choose: true }),
      text("dtype", 116, "Output type"),
      text("format", 104, "Format"),
      { title: "Cores", width: 80, ...figure("block_dim", show.count) },
      { title: "Work", width: 96, help: "Floating-point operations", ...figure("flops", show.si) },
      { title: "Moved", width: 92, numeric: true, help: "Bytes read and written", value: (i) => rows.bytes_read[i] + rows.bytes_written[i], show: (i) => show.bytes(rows.bytes_read[i] + rows.bytes_written[i]) },
      text("basis", 96, "Basis"),
    ],
    pick: (i) => selectOperator(i),
  });
  buildTimeline();
}

function operatorFacts(i) {
  const rows = DATA.operators;
  return facts(`${opWord("name")(i)} (${opWord("type")(i)})`, [
    ["Time", `${show.us(rows.us[i])}, ${show.us(rows.lo80[i])} to ${show.us(rows.hi80[i])}`], ["Share of the run", show.share(opShare(i))],
    ["Bound by", opWord("bound_by")(i)], ["Basis", opWord("basis")(i)], ["Engine", opWord("engine")(i)], ["Cores", rows.block_dim[i]],
    ["Cube busy", show.us(rows.cube_us[i])], ["Vector busy", show.us(rows.vector_us[i])], ["Data movement busy", show.us(rows.mte_us[i])],
    ["Launch", show.us(rows.launch_us[i])], ["Work", `${show.si(rows.flops[i])}FLOP`], ["Read", show.bytes(rows.bytes_read[i])], ["Written", show.bytes(rows.bytes_written[i])],
    ["Inputs", opWord("inputs")(i), true], ["Outputs", opWord("outputs")(i), true], ["Fused from", opWord("members")(i), true],
    ["Stands for", opWord("origin")(i), true], ["Passes", opWord("passes")(i), true], ["Note", opWord("note")(i), true],
  ]);
}

// One operator is selected everywhere at once.
function selectOperator(i) {
  openPanel("operators");
  OPERATOR_TABLE.select(i, true);
  TIMELINE?.pick(i, true);
  byId("operator-detail").replaceChildren(...operatorFacts(i));
}

function buildShares() {
  const holder = byId("shares"), shares = Object.entries(DATA.bound_by ?? {});
  if (!holder) return;
  const stack = el("div", { class: "stack", "aria-hidden": "true" }), list = el("ul");
  for (const [name, share] of shares) {
    const part = el("span", { class: `tone-${tone(name)}`, title: `${name} ${show.share(share)}` });
    part.style.flexGrow = String(Math.max(share, 0.002));
    stack.append(part);
    list.append(el("li", {}, swatch(name), name, el("b", {}, show.share(share))));
  }
  holder.replaceChildren(stack, list);
}
