// Curves over each other, drawn as SVG, with what they are at where the mouse is. The pages of `snug watch` and `snug
// compare` share it.
//
//   const chart = new Chart(element, { title: "loss", falls: true });
//   chart.draw([{ name: "training", colour: "#2563a8", points: [[1, 2.3], [2, 2.1, 2.0, 2.4]] }], "step");
//
// A point is [x, y], or [x, y, least, most] where it stands for several. A y of null is a gap.
const CHART_COLOURS = ["#2563a8", "#c2571a", "#3c8a4e", "#7a4fa3", "#a33b4b", "#2a8c8c", "#8a6d1f", "#5b6b7e", "#d0578f", "#6f9a1f"];
const chartColour = i => CHART_COLOURS[i % CHART_COLOURS.length];

// Short enough for an axis, long enough to tell values apart.
function chartNumber(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "not finite";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e6 || size < 1e-3) return v.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(+v.toPrecision(size >= 1000 ? 6 : 4));
}

// Each point the mean of those before it, the nearest counting most; what is left of a single one after `n` steps falls as
// exp(-steps / n). The first points have no other before them, so their weights are made up to 1.
function chartSmoothed(points, n) {
  if (n <= 0) return points.map(p => [p[0], p[1]]);
  const keep = Math.exp(-1 / n);
  let sum = 0, weight = 0;
  return points.map(p => {
    if (p[1] === null) return [p[0], null];
    sum = keep * sum + (1 - keep) * p[1];
    weight = keep * weight + (1 - keep);
    return [p[0], sum / weight];
  });
}

class Chart {
  constructor(box, options) {
    this.box = box;
    this.options = options;
    this.log = null;  // null: as the values are; true and false: as was asked for
    this.series = [];
    box.classList.add("chart");
    const head = document.createElement("div");
    head.className = "chart-head";
    this.title = document.createElement("h2");
    this.button = document.createElement("button");
    this.button.onclick = () => { this.log = !this.isLogarithmic(); this.render(); };
    head.append(this.title, this.button);
    this.legend = document.createElement("div");
    this.legend.className = "chart-legend";
    this.plot = document.createElement("div");
    this.tip = document.createElement("div");
    this.tip.className = "chart-tip";
    box.append(head, this.legend, this.plot, this.tip);
    this.plot.onmousemove = event => this.point(event);
    this.plot.onmouseleave = () => { this.tip.style.display = "none"; if (this.line) this.line.setAttribute("visibility", "hidden"); };
    new ResizeObserver(() => { if (box.clientWidth !== this.width) this.render(); }).observe(box);
  }

  // Marks are upright lines with a word each: [{ x: 20, text: "learning-rate 0.1 -> 0.01" }].
  draw(series, xName, marks = []) {
    this.series = series;
    this.xName = xName;
    this.upright = marks;
    this.render();
  }

  values() {
    let low = Infinity, high = -Infinity, positive = true;
    for (const s of this.series) for (const [, y, least, most] of s.points) {
      if (y === null) continue;
      const from = s.band && least !== undefined ? least : y, to = s.band && most !== undefined ? most : y;
      if (from < low) low = from;
      if (to > high) high = to;
      positive = positive && from > 0;
    }
    return { low, high, positive };
  }

  isLogarithmic() {
    const { low, high, positive } = this.values();
    if (!positive || low > high) return false;
    return this.log === null ? Boolean(this.options.falls) && high > 20 * low : this.log;
  }

  marks(low, high, pieces) {
    const raw = (high - low) / pieces, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find(k => k * power >= raw * 0.999) * power, first = Math.ceil(low / step - 1e-9), marks = [];
    // Counted, because adding 1 to a `first` above 2^53 would change nothing.
    for (let i = 0; i < 100 && (first + i) * step <= high + 1e-9 * step; ++i) marks.push((first + i) * step);
    return marks;
  }

  // Of a logarithmic axis: powers of ten, with 2 and 5 between them where there are few.
  logMarks(low, high) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)), marks = [];
    const every = Math.max(1, Math.ceil((to - from) / 8)), within = to - from <= 2 ? [1, 2, 5] : [1];
    for (let e = from; e <= to; ++e) for (const k of within) if ((e - from) % every === 0) marks.push(k * 10 ** e);
    return marks.filter(m => m >= low * 0.999 && m <= high * 1.001);
  }

  render() {
    const LEFT = 62, RIGHT = 14, TOP = 8, BOTTOM = 36, HEIGHT = 270;
    const make = (tag, attributes, parent, text) => {
      const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
      if (text !== undefined) e.textContent = text;
      parent.append(e);
      return e;
    };
    this.width = this.box.clientWidth;
    const width = Math.max(220, this.width), log = this.isLogarithmic(), { low, high, positive } = this.values();
    this.title.textContent = this.options.title;
    this.button.textContent = log ? "logarithmic" : "linear";
    this.button.style.display = positive && low <= high ? "" : "none";
    this.legend.replaceChildren(...this.series.filter(s => !s.faint).map(s => {
      const label = document.createElement("span"), swatch = document.createElement("i");
      swatch.style.background = s.colour;
      if (s.dashed) swatch.className = "dashed";
      const last = s.points.length ? s.points[s.points.length - 1][1] : undefined;
      label.append(swatch, s.name, last === undefined ? "" : " " + chartNumber(last));
      return label;
    }));
    const svg = make("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": this.options.title }, document.createDocumentFragment());
    const right = width - RIGHT, bottom = HEIGHT - BOTTOM;
    let x0 = Infinity, x1 = -Infinity;
    for (const s of this.series) for (const p of s.points) { if (p[0] < x0) x0 = p[0]; if (p[0] > x1) x1 = p[0]; }
    if (x0 > x1 || low > high) {
      make("text", { x: width / 2, y: HEIGHT / 2, class: "chart-mark", "text-anchor": "middle" }, svg, "nothing yet");
      this.line = null;
      this.plot.replaceChildren(svg);
      return;
    }
    // What differs by no more than rounding is one value, as a mean of equal values is, and gets an axis around it.
    const isOne = (from, to, least) => !(to - from > 1e-12 * Math.max(least, Math.abs(from), Math.abs(to)));
    const around = value => Math.max(0.5, Math.abs(value) * 0.05);
    if (isOne(x0, x1, 0)) { const room = around(x0); x0 -= room; x1 += room; }
    let y0 = log ? Math.log10(low) : low, y1 = log ? Math.log10(high) : high;
    const room = isOne(y0, y1, log ? 1 : 0) ? around(y0) : 0.03 * (y1 - y0);
    y0 -= room; y1 += room;
    const X = x => LEFT + (x - x0) / (x1 - x0) * (right - LEFT);
    const Y = y => bottom - ((log ? Math.log10(y) : y) - y0) / (y1 - y0) * (bottom - TOP);
    for (const mark of log ? this.logMarks(10 ** y0, 10 ** y1) : this.marks(y0, y1, 5)) {
      make("line", { x1: LEFT, x2: right, y1: Y(mark), y2: Y(mark), class: "chart-grid" }, svg);
      make("text", { x: LEFT - 7, y: Y(mark) + 4, class: "chart-mark", "text-anchor": "end" }, svg, chartNumber(mark));
    }
    for (const mark of this.marks(x0, x1, Math.max(2, Math.floor(width / 130)))) {
      make("line", { x1: X(mark), x2: X(mark), y1: bottom, y2: bottom + 4, class: "chart-axis" }, svg);
      make("text", { x: X(mark), y: bottom + 17, class: "chart-mark", "text-anchor": "middle" }, svg, chartNumber(mark));
    }
    make("line", { x1: LEFT, x2: right, y1: bottom, y2: bottom, class: "chart-axis" }, svg);
    make("text", { x: (LEFT + right) / 2, y: HEIGHT - 4, class: "chart-mark", "text-anchor": "middle" }, svg, this.xName || "step");
    for (const mark of this.upright) {
      if (mark.x < x0 || mark.x > x1) continue;
      const line = make("line", { x1: X(mark.x), x2: X(mark.x), y1: TOP, y2: bottom, class: "chart-change", stroke: mark.colour || "#5b6b7e" }, svg);
      make("title", {}, line, mark.text);
    }
    const ordered = [...this.series.filter(s => s.faint), ...this.series.filter(s => !s.faint)];
    for (const s of ordered) {
      if (s.band) {
        const merged = s.points.filter(p => p[1] !== null && p[2] !== undefined);
        if (merged.length > 1) {
          const edge = (p, i) => `${X(p[0]).toFixed(1)} ${Y(p[i]).toFixed(1)}`;
          make("path", { d: "M" + merged.map(p => edge(p, 3)).join("L") + "L" + merged.reverse().map(p => edge(p, 2)).join("L") + "Z", fill: s.colour, opacity: 0.13 }, svg);
        }
      }
      let d = "", down = false, alone = [];
      s.points.forEach((p, i) => {
        if (p[1] === null) { down = false; return; }
        if (!down && (i + 1 === s.points.length || s.points[i + 1][1] === null)) alone.push(p);
        d += `${down ? "L" : "M"}${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}`;
        down = true;
      });
      const style = { d, fill: "none", stroke: s.colour, "stroke-width": s.faint ? 0.8 : 1.8, "stroke-linejoin": "round", class: "chart-curve", "data-name": s.name };
      if (s.faint) style.opacity = 0.45;
      if (s.dashed) style["stroke-dasharray"] = "5 3";
      make("path", style, svg);
      for (const p of s.dots && s.points.length <= 80 ? s.points.filter(p => p[1] !== null) : alone) make("circle", { cx: X(p[0]), cy: Y(p[1]), r: 2.6, fill: s.colour }, svg);
    }
    this.line = make("line", { y1: TOP, y2: bottom, class: "chart-cursor", visibility: "hidden" }, svg);
    this.at = { x0, x1, left: LEFT, right, X };
    this.plot.replaceChildren(svg);
  }

  // Shows what every curve is nearest to the mouse.
  point(event) {
    if (!this.line) return;
    const box = this.plot.getBoundingClientRect(), { x0, x1, left, right, X } = this.at;
    const x = x0 + (event.clientX - box.left - left) / (right - left) * (x1 - x0);
    let nearest = null;
    const rows = [];
    for (const s of this.series) {
      if (!s.points.length) continue;
      let from = 0, to = s.points.length - 1;
      while (from < to) { const middle = (from + to) >> 1; if (s.points[middle][0] < x) from = middle + 1; else to = middle; }
      if (from > 0 && x - s.points[from - 1][0] < s.points[from][0] - x) --from;
      const p = s.points[from];
      if (nearest === null || Math.abs(p[0] - x) < Math.abs(nearest - x)) nearest = p[0];
      const row = document.createElement("div"), swatch = document.createElement("i");
      swatch.style.background = s.colour;
      row.append(swatch, `${s.name}${s.faint ? ", single steps" : ""} at ${chartNumber(p[0])}: ${chartNumber(p[1])}` + (s.band && p[2] !== undefined ? ` (${chartNumber(p[2])} to ${chartNumber(p[3])})` : ""));
      rows.push(row);
    }
    if (nearest === null) return;
    this.line.setAttribute("visibility", "visible");
    this.line.setAttribute("x1", X(nearest));
    this.line.setAttribute("x2", X(nearest));
    this.tip.replaceChildren(...rows);
    this.tip.style.display = "block";
    this.tip.style.left = Math.min(event.clientX + 14, window.innerWidth - this.tip.offsetWidth - 8) + "px";
    this.tip.style.top = Math.min(event.clientY + 14, window.innerHeight - this.tip.offsetHeight - 8) + "px";
  }
}
