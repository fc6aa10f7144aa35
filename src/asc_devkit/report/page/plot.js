// A canvas that keeps its size and colours right, scales with ticks, and a tooltip. Charts give a draw function.

const PLOTS = [];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

class Plot {
  // draw(ctx, box): box has the inner edges; find(x, y): index or -1; tip(index): lines; pick(index): a click.
  constructor(id, margins, handlers) {
    this.root = byId(id);
    this.canvas = this.root.querySelector("canvas");
    this.balloon = this.root.querySelector(".tip");
    this.height = Number(this.root.dataset.height);
    this.margins = margins;
    this.handlers = handlers;
    this.picked = -1;
    this.dragged = false;
    new ResizeObserver(() => this.redraw()).observe(this.root);
    this.canvas.addEventListener("pointermove", (e) => this.#hover(e));
    this.canvas.addEventListener("pointerleave", () => (this.balloon.hidden = true));
    this.canvas.addEventListener("click", (e) => {
      if (this.dragged) return;
      const found = handlers.find(e.offsetX, e.offsetY);
      if (found >= 0) this.pick(found);
    });
    this.root.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (step && handlers.count) {
        e.preventDefault();
        this.pick(Math.min(Math.max(this.picked + step, 0), handlers.count() - 1));
      }
    });
    PLOTS.push(this);
  }

  pick(index, quiet = false) {
    this.picked = index;
    this.redraw();
    if (!quiet) this.handlers.pick(index);
  }

  get box() {
    const [top, right, bottom, left] = this.margins;
    return { left, top, right: this.width - right, bottom: this.height - bottom, width: this.width - left - right, height: this.height - top - bottom };
  }

  redraw() {
    this.width = this.root.clientWidth;
    if (!this.width) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = `12px ${colour("sans")}`;
    ctx.lineJoin = "round";
    this.handlers.draw(ctx, this.box);
  }

  #hover(event) {
    if (event.buttons) return;
    const found = this.handlers.find(event.offsetX, event.offsetY);
    this.canvas.style.cursor = found >= 0 ? "pointer" : "";
    this.balloon.hidden = found < 0;
    if (found < 0) return;
    const [title, ...lines] = this.handlers.tip(found);
    this.balloon.replaceChildren(el("b", {}, title), ...lines.map((line) => el("div", {}, line)));
    const wide = this.balloon.offsetWidth, high = this.balloon.offsetHeight;
    const x = event.offsetX + 16 + wide > this.width ? event.offsetX - wide - 12 : event.offsetX + 16;
    const y = Math.min(Math.max(event.offsetY - high / 2, 6), this.height - high - 6);
    this.balloon.style.transform = `translate(${Math.max(x, 4)}px, ${y}px)`;
  }
}

const linear = (from, to, a, b) => (v) => a + ((v - from) / (to - from || 1)) * (b - a);
const logarithmic = (from, to, a, b) => {
  const scale = linear(Math.log10(from), Math.log10(to), a, b);
  return (v) => scale(Math.log10(v));
};

// Round values at equal distances, about `wanted` of them.
function ticks(from, to, wanted) {
  const raw = (to - from) / Math.max(wanted, 1) || 1;
  // Coloured dots with names along the top edge, from `at` rightwards.
function legend(ctx, at, names) {
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const name of names) {
    ctx.fillStyle = colour(tone(name));
    dot(ctx, at, 17, 5);
    ctx.fillStyle = colour("soft");
    ctx.fillText(name, at + 10, 17);
    at += ctx.measureText(name).width + 32;
  }
}

const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((m) => m * power >= raw) ?? 10);
  const found = [];
  for (let v = Math.ceil(from / step) * step; v <= to + step * 1e-9; v += step) found.push(Number(v.toPrecision(12)));
  return found;
}

function decades(from, to, most) {
  const first = Math.ceil(Math.log10(from) - 1e-9), last = Math.floor(Math.log10(to) + 1e-9);
  const stride = Math.max(1, Math.ceil((last - first + 1) / most));
  const found = [];
  for (let p = first; p <= last; p += stride) found.push(10 ** p);
  return found;
}

// Grid lines with labels: left axis for values, bottom axis for positions.
function axes(ctx, box, { x, y, xTicks, yTicks, xText, yText, xTitle, yTitle }) {
  ctx.lineWidth = 1;
  ctx.strokeStyle = colour("line");
  ctx.fillStyle = colour("soft");
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  for (const v of yTicks) {
    const at = Math.round(y(v)) + 0.5;
    line(ctx, box.left, at, box.right, at);
    ctx.fillText(yText(v), box.left - 8, at);
  }
  ctx.textBaseline = "top";
  ctx.textAlign = "center";
  for (const v of xTicks) {
    const at = Math.round(x(v)) + 0.5;
    line(ctx, at, box.bottom, at, box.bottom + 4);
    ctx.fillText(xText(v), at, box.bottom + 8);
  }
  ctx.textAlign = "right";
  if (xTitle) ctx.fillText(xTitle, box.right, box.bottom + 26);
  ctx.textAlign = "left";
  if (yTitle) ctx.fillText(yTitle, 12, 10);
}

function line(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function dot(ctx, x, y, radius) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 7);
  ctx.fill();
}

// Coloured dots with names along the top edge, from `at` rightwards.
function legend(ctx, at, names) {
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const name of names) {
    ctx.fillStyle = colour(tone(name));
    dot(ctx, at, 17, 5);
    ctx.fillStyle = colour("soft");
    ctx.fillText(name, at + 10, 17);
    at += ctx.measureText(name).width + 32;
  }
}

const power = (v) => {
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const p = Math.round(Math.log10(v));
  return p === 0 ? "1" : `10${p < 0 ? "⁻" : ""}${[...String(Math.abs(p))].map((d) => digits[d]).join("")}`;
};
