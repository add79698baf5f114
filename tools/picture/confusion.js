// A confusion matrix on a canvas: a row for each label, a column for what its rows were taken for, with the counts under
// the mouse. The report of `snug eval` and the page of `snug watch` share it.
//
//   const matrix = new ConfusionMatrix(canvas, tip);
//   matrix.draw({ each: [{ class: 0, name: "rose", rows: 9, predicted: 8, right: 7 }, ...], confusions: [[0, 1, 2], ...] });
//
// Classes without rows and predictions are left out. A prediction of null is none: the scores were no numbers.
const NO_CLASS = -1;
const grouped = n => n.toLocaleString("en-US");
const percent = value => value === null ? "–" : (100 * value).toFixed(value > 0.0995 || value === 0 ? 1 : 2) + " %";
const shortened = (text, most) => [...text].length > most ? [...text].slice(0, most - 1).join("") + "…" : text;

// A canvas of so many CSS pixels, sharp on any screen.
function prepareCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio)); canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d"); context.scale(ratio, ratio); context.clearRect(0, 0, width, height);
  context.font = '12px system-ui, "DejaVu Sans", sans-serif';
  return context;
}

class ConfusionMatrix {
  constructor(canvas, tip) {
    this.canvas = canvas;
    this.tip = tip;
    this.labels = [];
    canvas.onmousemove = event => this.point(event);
    canvas.onmouseleave = () => { tip.style.display = "none"; };
    new ResizeObserver(() => { if (canvas.parentElement.clientWidth !== this.room) this.render(); }).observe(canvas.parentElement);
  }

  draw(classes) {
    const occurring = classes.each.filter(c => c.rows || c.predicted);
    this.of = new Map(occurring.map(c => [c.class, c]));
    this.counts = new Map(occurring.map(c => [c.class + ":" + c.class, c.right]));
    for (const [label, predicted, count] of classes.confusions) this.counts.set(label + ":" + (predicted === null ? NO_CLASS : predicted), count);
    this.labels = occurring.map(c => c.class);
    this.across = classes.confusions.some(([, predicted]) => predicted === null) ? [...this.labels, NO_CLASS] : this.labels;
    this.render();
  }

  name(c) { return c === NO_CLASS ? "none" : this.of.get(c).name; }
  count(label, predicted) { return this.counts.get(label + ":" + predicted) || 0; }

  render() {
    this.room = this.canvas.parentElement.clientWidth;
    if (!this.labels.length || !this.room) return;
    const { canvas, labels, across } = this, padding = getComputedStyle(canvas.parentElement);
    const width = this.room - parseFloat(padding.paddingLeft) - parseFloat(padding.paddingRight);
    const named = labels.length <= 40;
    const measure = canvas.getContext("2d"); measure.font = '12px system-ui, "DejaVu Sans", sans-serif';
    const widest = named ? Math.max(...across.map(c => measure.measureText(shortened(this.name(c), 18)).width), 0) : 0;
    this.left = named ? widest + 26 : 24;
    this.above = named ? Math.min(widest, 110) + 30 : 24;
    this.cell = Math.min(64, (width - this.left) / across.length);
    const { left, above, cell } = this, context = prepareCanvas(canvas, width, above + cell * labels.length + 4);
    const style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink"), soft = style.getPropertyValue("--soft"), ground = style.getPropertyValue("--ground");
    labels.forEach((label, y) => {
      const rows = this.of.get(label).rows;
      across.forEach((predicted, x) => {
        const count = this.count(label, predicted), part = rows ? count / rows : 0;
        context.fillStyle = count === 0 ? ground : label === predicted ? `rgba(15, 138, 75, ${0.12 + 0.88 * part})` : `rgba(198, 47, 59, ${0.12 + 0.88 * part})`;
        const gap = cell > 6 ? 1 : 0;
        context.fillRect(left + x * cell, above + y * cell, cell - gap, cell - gap);
        const text = String(count);
        if (count && cell >= 8 + 7.5 * text.length && cell >= 18) {
          context.fillStyle = part > 0.55 ? "#fff" : ink; context.textAlign = "center"; context.textBaseline = "middle";
          context.fillText(text, left + (x + 0.5) * cell, above + (y + 0.5) * cell);
        }
      });
      if (named && cell >= 12) { context.fillStyle = ink; context.textAlign = "right"; context.textBaseline = "middle"; context.fillText(shortened(this.name(label), 18), left - 6, above + (y + 0.5) * cell); }
    });
    if (named && cell >= 12) across.forEach((predicted, x) => {
      context.save(); context.translate(left + (x + 0.5) * cell, above - 6); context.rotate(-Math.PI / 2);
      context.fillStyle = ink; context.textAlign = "left"; context.textBaseline = "middle"; context.fillText(shortened(this.name(predicted), 16), 0, 0); context.restore();
    });
    context.fillStyle = soft; context.textAlign = "left"; context.textBaseline = "top"; context.fillText("taken for →", left, 0);
    context.save(); context.translate(0, above + Math.min(cell * labels.length, 60)); context.rotate(-Math.PI / 2); context.fillText("label →", 0, 0); context.restore();
  }

  // Shows what the cell under the mouse counts.
  point(event) {
    const box = this.canvas.getBoundingClientRect(), { tip, labels, across } = this;
    const x = Math.floor((event.clientX - box.left - this.left) / this.cell), y = Math.floor((event.clientY - box.top - this.above) / this.cell);
    if (!(x >= 0 && y >= 0 && x < across.length && y < labels.length)) { tip.style.display = "none"; return; }
    const count = this.count(labels[y], across[x]), rows = this.of.get(labels[y]).rows;
    tip.textContent = this.name(labels[y]) + (labels[y] === across[x] ? " was recognised " : " was taken for " + this.name(across[x]) + " ") + grouped(count) + (count === 1 ? " time" : " times") + (rows ? ", " + percent(count / rows) + " of its " + grouped(rows) + " rows" : "");
    tip.style.display = "block"; tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px"; tip.style.top = event.clientY + 16 + "px";
  }

  // The most frequent confusions as rows of a table: label, taken for, rows, share of the label's.
  list(confusions, most) {
    return confusions.slice(0, most).map(([label, predicted, count]) => {
      const row = document.createElement("tr"), cell = (text, cls) => { const td = document.createElement("td"); td.textContent = text; if (cls) td.className = cls; row.append(td); };
      cell(this.name(label)); cell(this.name(predicted === null ? NO_CLASS : predicted));
      cell(grouped(count), "r"); cell(percent(count / this.of.get(label).rows), "r");
      return row;
    });
  }
}
