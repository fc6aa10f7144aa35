// Error of each layer along the graph, and the table of layers.

function buildAccuracy() {
  const rows = DATA.layers, count = rows.index?.length ?? 0;
  if (!count || !byId("layer-chart")) return;
  const error = rows.relative_euclidean.map(amount);
  const broken = (i) => rows.kind_mismatches[i] > 0 || error[i] === Infinity;
  const bad = (i) => broken(i) || word(rows.kind[i]) === "sudden" || rows.saturated[i] > 0;
  const positive = error.filter((v) => v > 0 && v < Infinity);
  const low = 10 ** Math.floor(Math.log10(Math.min(...positive.slice(0, 1), ...minmax(positive), 1e-4)));
  const lines = [];
  if (DATA.noise) lines.push([DATA.noise, "fp16 rounding alone"]);
  if (finite(DATA.threshold) && DATA.threshold < 1) lines.push([Math.sqrt(2 * (1 - DATA.threshold)), `cosine ${DATA.threshold}`]);
  const high = 10 ** Math.ceil(Math.log10(Math.max(minmax(positive)[1] ?? 0, ...lines.map((l) => l[0]), 1e-3)));
  const height = (i, y) => y(broken(i) ? high : Math.min(Math.max(error[i], low), high));
  let x = null, y = null;

  const plot = new Plot("layer-chart", [34, 24, 48, 58], {
    count: () => count,
    draw(ctx, box) {
      x = linear(0, Math.max(count - 1, 1), box.left + 8, box.right - 8);
      y = logarithmic(low, high, box.bottom, box.top);
      axes(ctx, box, {
        x, y, yTicks: decades(low, high, 8), yText: power, yTitle: "relative error",
        xTicks: ticks(0, count - 1, Math.min(10, count - 1)).filter(Number.isInteger), xText: (v) => String(v + 1), xTitle: "layer in execution order",
      });
      reference(ctx, box);
      curve(ctx);
      points(ctx);
    },
    find: (px) => {
      const at = Math.round(((px - x(0)) / (x(1) - x(0))) || 0);
      return at >= 0 && at < count ? at : -1;
    },
    tip: (i) => [
      word(rows.name[i]), word(rows.type[i]), `relative error ${show.small(rows.relative_euclidean[i])}, cosine ${show.cosine(rows.cosine[i])}`,
      `its inputs brought ${show.small(rows.inherited_error[i])}`, rows.saturated[i] ? `${show.count(rows.saturated[i])} elements at the fp16 limit` : "",
    ].filter(Boolean),
    pick: (i) => select(i, true),
  });

  function reference(ctx, box) {
    ctx.setLineDash([5, 4]);
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    for (const [value, label] of lines) {
      ctx.strokeStyle = ctx.fillStyle = colour("open");
      line(ctx, box.left, y(value), box.right, y(value));
      ctx.fillText(label, box.right - 6, y(value) - 3);
    }
    ctx.setLineDash([]);
  }

  function curve(ctx) {
    ctx.strokeStyle = colour("cube");
    ctx.globalAlpha = count > 60 ? 0.55 : 0.4;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    for (let i = 0; i < count; i++) ctx.lineTo(x(i), height(i, y));
    ctx.stroke();
    ctx.globalAlpha = 1;
  }

  function points(ctx) {
    const radius = count > 1500 ? 1.2 : count > 400 ? 2 : 3.5;
    const plain = colour("cube"), alarm = colour("no");
    for (let i = 0; i < count; i++) {
      ctx.fillStyle = bad(i) ? alarm : plain;
      dot(ctx, x(i), height(i, y), bad(i) ? Math.max(radius, 3.5) : radius);
    }
    if (plot.picked >= 0) {
      ctx.strokeStyle = colour("ink");
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.arc(x(plot.picked), height(plot.picked, y), 7, 0, 7);
      ctx.stroke();
    }
  }

  const text = (key) => (i) => word(rows[key][i]);
  const figure = (key, format = show.small) => ({ numeric: true, value: (i) => amount(rows[key][i]), show: (i) => String(format(rows[key][i])) });
  const table = new Table("layer-table", {
    label: "layers", count, sort: [4, true],
    columns: [
      { title: "#", width: 56, numeric: true, value: (i) => i, show: (i) => String(i + 1) },
      { title: "Layer", width: 230, value: text("name"), show: text("name"), search: true },
      { title: "Type", width: 160, value: text("type"), show: text("type"), search: true, choose: true },
      { title: "Cosine", width: 112, ...figure("cosine", show.cosine) },
      { title: "Rel. error", width: 112, help: "|expected - actual| / |expected|", ...figure("relative_euclidean") },
      { title: "Own part", width: 100, help: "What this layer adds to the error of its inputs", ...figure("own_error") },
      { title: "Inherited", width: 100, ...figure("inherited_error") },
      { title: "Largest", width: 92, help: "Largest absolute difference", ...figure("max_abs") },
      { title: "Close", width: 84, help: "Share of elements within 1e-3", ...figure("close_share", show.share) },
      { title: "At limit", width: 90, help: "Elements at the fp16 limit of 65504", ...figure("saturated", show.count) },
      { title: "Error", width: 128, value: text("kind"), choose: true, show: (i) => (word(rows.kind[i]) === "sudden" ? el("span", { class: "bad" }, "sudden") : word(rows.kind[i])) },
    ],
    pick: (i) => select(i, false),
  });

  function select(i, fromPlot) {
    if (fromPlot) table.select(i, true);
    else plot.pick(i, true);
    const where = DATA.operators.name?.indexOf(rows.name[i]) ?? -1;
    const go = where >= 0 && byId("operators") ? el("p", {}, el("a", { href: "#operators", onclick: () => selectOperator(where) }, "Show this operator's time")) : null;
    byId("layer-detail").replaceChildren(...facts(`${word(rows.name[i])} (${word(rows.type[i])})`, [
      ["Cosine", show.cosine(rows.cosine[i])], ["Relative error", show.small(rows.relative_euclidean[i])],
      ["Brought by its inputs", show.small(rows.inherited_error[i])], ["Its own part", show.small(rows.own_error[i])],
      ["Largest error", show.small(rows.max_abs[i])], ["Mean error", show.small(rows.mean_abs[i])], ["RMS error", show.small(rows.rmse[i])],
      ["Largest relative error", show.small(rows.max_rel[i])], ["Within 1e-3", show.share(rows.close_share[i])],
      ["At the fp16 limit", `${show.count(rows.saturated[i])} of ${show.count(rows.count[i])}`],
      ["NaN / infinite", `${rows.nan_actual[i]} / ${rows.inf_actual[i]}`], ["Type on the chip", word(rows.dtype[i]).toLowerCase()],
      ["Tensor in the model", word(rows.tensor[i]), true], ["Stands for", word(rows.origin[i]), true],
    ], go));
  }
}

function minmax(values) {
  let low = Infinity, high = 0;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return values.length ? [low, high] : [];
}
