// Bytes in use step by step, and what lies there at the worst moment.

function buildMemory() {
  const memory = DATA.memory;
  if (!memory || !byId("memory-chart")) return;
  const live = memory.live, count = live.length, base = memory.weight_bytes, room = memory.capacity_bytes;
  const peak = base + Math.max(...minmax(live), 0);
  const high = (room && room < 3 * peak ? Math.max(room, peak) : peak) * 1.08 || 1;
  let x = null, y = null;
  const plot = new Plot("memory-chart", [34, 24, 48, 76], {
    count: () => count,
    draw(ctx, box) {
      x = linear(0, Math.max(count, 1), box.left, box.right);
      y = linear(0, high, box.bottom, box.top);
      const unit = [2 ** 30, 2 ** 20, 2 ** 10].find((u) => high >= 2 * u) ?? 1;
      axes(ctx, box, {
        x, y, yTicks: ticks(0, high / unit, 5).map((v) => v * unit), yText: (v) => (v ? show.bytes(v).replace(/\.0+ /, " ") : "0"), yTitle: "",
        xTicks: ticks(0, count, 10).filter(Number.isInteger), xText: String, xTitle: "step of execution",
      });
      area(ctx, box, () => base, "memory", 0.35);
      steps(ctx, box);
      mark(ctx, box);
    },
    find: (px) => {
      const at = Math.floor(((px - x(0)) / (x(count) - x(0))) * count);
      return at >= 0 && at < count ? at : -1;
    },
    tip: (i) => [word(memory.steps[i]) || `step ${i + 1}`, `step ${i + 1} of ${count}`, `${show.bytes(live[i])} features + ${show.bytes(base)} weights`],
    pick: () => {},
  });

  function area(ctx, box, value, name, alpha) {
    ctx.fillStyle = colour(name);
    ctx.globalAlpha = alpha;
    ctx.fillRect(box.left, y(value()), box.width, box.bottom - y(value()));
    ctx.globalAlpha = 1;
  }

  function steps(ctx, box) {
    const trace = () => {
      for (let i = 0; i < count; i++) {
        ctx.lineTo(x(i), y(base + live[i]));
        ctx.lineTo(x(i + 1), y(base + live[i]));
      }
    };
    ctx.fillStyle = colour("cube");
    ctx.globalAlpha = 0.28;
    ctx.beginPath();
    ctx.moveTo(box.left, y(base));
    trace();
    ctx.lineTo(box.right, y(base));
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.strokeStyle = colour("cube");
    ctx.lineWidth = 1.6;
    ctx.beginPath();
    trace();
    ctx.stroke();
  }

  function mark(ctx, box) {
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    let at = 14;
    for (const [name, label] of [["cube", "features"], ["memory", "weights"]]) {
      ctx.fillStyle = colour(name);
      ctx.globalAlpha = 0.6;
      ctx.fillRect(at, 11, 11, 11);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colour("soft");
      ctx.fillText(label, at + 17, 17);
      at += ctx.measureText(label).width + 38;
    }
    if (room) {
      const inside = room <= high;
      ctx.fillStyle = ctx.strokeStyle = colour(inside ? "no" : "soft");
      ctx.textAlign = "right";
      if (inside) line(ctx, box.left, y(room), box.right, y(room));
      ctx.fillText(inside ? `capacity ${show.bytes(room)}` : `capacity ${show.bytes(room)}, ${Math.floor(room / peak)} times this peak`, box.right, inside ? y(room) - 9 : 17);
    }
    if (!count) return;
    const step = memory.peak_step, place = x(step + 0.5);
    ctx.fillStyle = colour("ink");
    dot(ctx, place, y(base + live[step]), 4);
    ctx.textAlign = place > box.right - 160 ? "right" : "left";
    ctx.fillText(`peak ${show.bytes(base + live[step])}`, place + (ctx.textAlign === "right" ? -9 : 9), y(base + live[step]) - 10);
  }

  const largest = Math.max(...memory.peak.map((b) => b[2]), 1);
  const rows = memory.peak.map(([name, offset, size, first, last]) => {
    const bar = el("span");
    bar.style.width = `${(100 * size) / largest}%`;
    return [word(name), show.bytes(size), `0x${offset.toString(16)}`, `${first + 1} – ${last + 1}`, el("div", { class: "meter" }, bar)];
  });
  byId("peak-table").replaceChildren(el("div", { class: "scroll" }, plainTable(["Tensor", "Size", "Offset", "Alive in steps", ""], rows, [1, 2, 3])));
}
