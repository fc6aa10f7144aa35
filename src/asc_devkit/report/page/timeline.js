// Operators on the device's time axis, one lane per engine, with zoom.

let TIMELINE = null;

function buildTimeline() {
  const rows = DATA.operators, count = rows.us.length;
  const lanes = [...new Set(rows.engine.filter((_, i) => rows.us[i] > 0).map(word))].sort();
  const lane = rows.engine.map((e) => lanes.indexOf(word(e)));
  const whole = Math.max(DATA.total_us, 1e-6);
  let from = 0, to = whole, scale = null, laneHeight = 0, top = 0;
  const title = (name) => name || "none";

  const plot = new Plot("timeline", [34, 20, 34, 92], {
    count: () => count,
    draw(ctx, box) {
      scale = linear(from, to, box.left, box.right);
      laneHeight = box.height / Math.max(lanes.length, 1);
      top = box.top;
      axes(ctx, box, {
        x: scale, y: (v) => v, yTicks: [], xTicks: ticks(from, to, Math.max(2, Math.floor(box.width / 130))), xText: (v) => show.us(v),
      });
      ctx.textAlign = "right";
      ctx.textBaseline = "middle";
      ctx.fillStyle = colour("soft");
      lanes.forEach((name, l) => ctx.fillText(title(name), box.left - 12, top + (l + 0.5) * laneHeight));
      legend(ctx, box.left + 5, Object.keys(DATA.bound_by));
      ctx.save();
      ctx.beginPath();
      ctx.rect(box.left, 0, box.width, box.bottom);
      ctx.clip();
      bars(ctx);
      ctx.restore();
    },
    find(px, py) {
      const l = Math.floor((py - top) / laneHeight);
      let best = -1, gap = 4;
      for (let i = 0; i < count; i++) {
        if (lane[i] !== l || !(rows.us[i] > 0)) continue;
        const a = scale(rows.start_us[i]), b = scale(rows.start_us[i] + rows.us[i]);
        const distance = px < a ? a - px : px > b ? px - b : 0;
        if (distance < gap) [best, gap] = [i, distance];
      }
      return best;
    },
    tip: (i) => [opWord("name")(i), opWord("type")(i), `${show.us(rows.us[i])} (${show.us(rows.lo80[i])} to ${show.us(rows.hi80[i])}), ${show.share(opShare(i))}`, `bound by ${opWord("bound_by")(i)}, starts at ${show.us(rows.start_us[i])}`],
    pick: (i) => selectOperator(i),
  });
  TIMELINE = plot;

  function bars(ctx) {
    const tones = Object.fromEntries([...TONES, "none"].map((name) => [name, colour(name)]));
    const page = colour("card"), ink = colour("ink");
    const reached = lanes.map(() => -1); // right edge drawn so far, to skip tasks no wider than what is there
    ctx.textAlign = "left";
    for (let i = 0; i < count; i++) {
      if (!(rows.us[i] > 0)) continue;
      const a = scale(rows.start_us[i]), b = scale(rows.start_us[i] + rows.us[i]);
      if (b < 0 || a > plot.width || (b <= reached[lane[i]] && i !== plot.picked)) continue;
      const y = top + lane[i] * laneHeight + 4, wide = Math.max(b - a, 1), high = laneHeight - 8;
      reached[lane[i]] = Math.max(b, a + 1);
      ctx.fillStyle = tones[tone(opWord("bound_by")(i))];
      ctx.fillRect(a, y, wide > 3 ? wide - 0.6 : wide, high);
      if (wide > 46) {
        ctx.save();
        ctx.beginPath();
        ctx.rect(a, y, wide - 6, high);
        ctx.clip();
        ctx.fillStyle = page;
        ctx.fillText(opWord("type")(i), Math.max(a, plot.box.left) + 6, y + high / 2);
        ctx.restore();
      }
      if (i === plot.picked) {
        ctx.strokeStyle = ink;
        ctx.lineWidth = 2;
        ctx.strokeRect(a - 1, y - 1, wide + 2, high + 2);
      }
    }
  }

  function window_(start, end) {
    const span = Math.min(Math.max(end - start, whole / 1e5), whole);
    from = Math.min(Math.max(start, 0), whole - span);
    to = from + span;
    plot.redraw();
  }
  function zoom(factor, at = (from + to) / 2) {
    window_(at - (at - from) * factor, at + (to - at) * factor);
  }
  const pick = plot.pick.bind(plot);
  plot.pick = (i, quiet) => {
    const start = rows.start_us[i], end = start + rows.us[i];
    if (start < from || end > to) window_(start - (to - from - rows.us[i]) / 2, start + (to - from + rows.us[i]) / 2);
    pick(i, quiet);
  };
  byId("zoom-in").addEventListener("click", () => zoom(0.5));
  byId("zoom-out").addEventListener("click", () => zoom(2));
  byId("zoom-all").addEventListener("click", () => window_(0, whole));
  plot.root.addEventListener("keydown", (e) => {
    if (e.key === "+" || e.key === "=") zoom(0.5);
    if (e.key === "-") zoom(2);
    if (e.key === "0") window_(0, whole);
  });
  plot.canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && document.activeElement !== plot.root) return; // plain scrolling stays the page's
    e.preventDefault();
    const at = from + ((e.offsetX - plot.box.left) / plot.box.width) * (to - from);
    zoom(2 ** (Math.sign(e.deltaY) * 0.4), at);
  }, { passive: false });
  let grip = null;
  plot.canvas.addEventListener("pointerdown", (e) => {
    grip = { x: e.offsetX, from, to };
    plot.dragged = false;
    plot.canvas.setPointerCapture(e.pointerId);
  });
  plot.canvas.addEventListener("pointermove", (e) => {
    if (!grip || !e.buttons) return;
    if (Math.abs(e.offsetX - grip.x) > 3) plot.dragged = true;
    const moved = ((e.offsetX - grip.x) / plot.box.width) * (grip.to - grip.from);
    if (plot.dragged) window_(grip.from - moved, grip.to - moved);
  });
  plot.canvas.addEventListener("pointerup", () => (grip = null));
}
