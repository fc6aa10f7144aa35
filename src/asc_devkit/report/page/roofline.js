// Work per byte against speed, under the chip's peaks.

function buildRoofline() {
  const rows = DATA.operators;
  if (!rows.us || !byId("roof-chart")) return;
  const shown = [];
  rows.us.forEach((us, i) => {
    const bytes = rows.bytes_read[i] + rows.bytes_written[i];
    if (us > 0 && rows.flops[i] > 0 && bytes > 0) shown.push({ i, x: rows.flops[i] / bytes, y: (rows.flops[i] / us) * 1e6, share: opShare(i) });
  });
  const left = rows.us.length - shown.length;
  byId("roof-note").textContent = `${shown.length} operators shown; dot size is the share of time.` + (left ? ` ${left} without arithmetic (moves, views, conversions) have no place here.` : "");
  const slopes = [["memory_gbps", "memory", 1e9], ["l2_gbps", "L2", 1e9]];
  const flats = [["fp16_cube_tflops", "cube fp16", 1e12], ["vector_fp16_tflops", "vector fp16", 1e12]];
  const peaks = (list) => list.filter(([key]) => finite(DATA.soc[key])).map(([key, label, unit]) => ({ label, value: DATA.soc[key] * unit, raw: DATA.soc[key] }));
  const diagonals = peaks(slopes), roofs = peaks(flats);
  const reach = (values, low, high) => {
    const [a, b] = minmax(values);
    return [10 ** Math.floor(Math.log10(Math.min(a ?? low, low))), 10 ** Math.ceil(Math.log10(Math.max(b ?? high, high)))];
  };
  const [x0, x1] = reach(shown.map((p) => p.x), 0.1, 1000);
  const [y0, y1] = reach([...shown.map((p) => p.y), ...roofs.map((r) => 2 * r.value)], 1e9, 1e12); // room for the labels
  const top = Math.max(...roofs.map((r) => r.value), 0) || y1;
  let x = null, y = null;

  const plot = new Plot("roof-chart", [38, 24, 52, 62], {
    count: () => shown.length,
    draw(ctx, box) {
      x = logarithmic(x0, x1, box.left, box.right);
      y = logarithmic(y0, y1, box.bottom, box.top);
      axes(ctx, box, {
        x, y, xTicks: decades(x0, x1, 10), yTicks: decades(y0, y1, 10), xText: (v) => (v >= 1 && v < 1e5 ? String(v) : power(v)), yText: (v) => show.si(v).replace(/\.0+ /, " "),
        xTitle: "FLOP per byte moved", yTitle: "FLOP/s",
      });
      ctx.save();
      ctx.beginPath();
      ctx.rect(box.left, box.top, box.width, box.height);
      ctx.clip();
      drawRoofs(ctx);
      for (const p of shown) {
        ctx.fillStyle = colour(tone(opWord("bound_by")(p.i)));
        ctx.globalAlpha = 0.72;
        dot(ctx, x(p.x), y(p.y), radius(p));
      }
      ctx.globalAlpha = 1;
      const picked = shown[plot.picked];
      if (picked) {
        ctx.strokeStyle = colour("ink");
        ctx.lineWidth = 2;
        ctx.beginPath();
        ctx.arc(x(picked.x), y(picked.y), radius(picked) + 3, 0, 7);
        ctx.stroke();
      }
      ctx.restore();
      legend(ctx, box.left + 70, [...new Set(shown.map((p) => opWord("bound_by")(p.i)))]);
    },
    find(px, py) {
      let best = -1, gap = 18;
      shown.forEach((p, at) => {
        const distance = Math.hypot(x(p.x) - px, y(p.y) - py) - radius(p);
        if (distance < gap) [best, gap] = [at, distance];
      });
      return best;
    },
    tip(at) {
      const p = shown[at], roof = Math.min(top, (diagonals[0]?.value ?? Infinity) * p.x);
      return [opWord("name")(p.i), opWord("type")(p.i), `${show.si(p.y)}FLOP/s at ${show.small(p.x)} FLOP per byte`, `${show.share(p.y / roof)} of the ${roof === top ? "cube" : "memory"} roof; ${show.us(rows.us[p.i])}, bound by ${opWord("bound_by")(p.i)}`];
    },
    pick: (at) => byId("roof-detail").replaceChildren(...operatorFacts(shown[at].i)),
  });
  const radius = (p) => 3 + 16 * Math.sqrt(Math.min(p.share, 1));

  function drawRoofs(ctx) {
    ctx.lineWidth = 1.6;
    ctx.textBaseline = "bottom";
    for (const { label, value, raw } of roofs) {
      ctx.strokeStyle = ctx.fillStyle = colour(label.startsWith("cube") ? "cube" : "vector");
      const start = Math.max((diagonals.at(-1)?.value ? value / Math.max(...diagonals.map((d) => d.value)) : x0), x0);
      line(ctx, x(start), y(value), x(x1), y(value));
      ctx.textAlign = "right";
      ctx.fillText(`${label} ${raw} TFLOP/s`, x(x1) - 8, y(value) - 4);
    }
    for (const { label, value, raw } of diagonals) {
      ctx.strokeStyle = ctx.fillStyle = colour(label === "L2" ? "l2" : "memory");
      line(ctx, x(x0), y(value * x0), x(top / value), y(top));
      ctx.save();
      const at = Math.sqrt(x0 * Math.max(y0 / value, x0)) * 3;
      ctx.translate(x(at), y(value * at));
      ctx.rotate(Math.atan2(y(value * 10) - y(value), x(10) - x(1)));
      ctx.textAlign = "left";
      ctx.fillText(`${label} ${raw} GB/s`, 0, -4);
      ctx.restore();
    }
  }
}
