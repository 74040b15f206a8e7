"use strict";
// Small charts as SVG: steps over time, and cumulative distributions.

const SVG = "http://www.w3.org/2000/svg";
const CHART = { width: 460, height: 210, left: 46, right: 12, top: 10, bottom: 36 };
const MOST_POINTS = 1200;

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Counts over time.  curves: [{name, x, y}] with ascending x; until: where the last count ends. */
function stepChart(element, curves, { xLabel, yLabel, until, most }) {
  const yMost = most ?? Math.max(1, ...curves.map(({ y }) => greatest(y)));
  drawChart(element, curves.map((curve) => ({ ...curve, x: [...curve.x, until], y: [...curve.y, curve.y.at(-1) ?? 0] })), {
    xLabel, yLabel, xFrom: 0, xTo: until, yTo: yMost, before: 0,
  });
}

/** Share of values at or below x.  groups: [{name, values}], with ascending values. */
function distributionChart(element, groups, { xLabel, yLabel }) {
  const curves = groups
    .filter(({ values }) => values.length)
    .map(({ name, values, colour }) => ({ name, colour, x: values, y: Array.from(values, (_, place) => (place + 1) / values.length) }));
  const xTo = Math.max(...curves.map(({ x }) => x.at(-1)), 1e-9);
  drawChart(element, curves, { xLabel, yLabel, xFrom: 0, xTo: xTo * 1.02, yTo: 1, before: 0 });
}

function drawChart(element, curves, { xLabel, yLabel, xFrom, xTo, yTo, before }) {
  const { width, height, left, right, top, bottom } = CHART;
  const toX = (value) => left + ((value - xFrom) / (xTo - xFrom || 1)) * (width - left - right);
  const toY = (value) => height - bottom - (value / yTo) * (height - top - bottom);
  const title = `${yLabel} by ${xLabel}: ${curves.map(({ name }) => name).join(", ")}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  drawScales(picture, { xFrom, xTo, yTo, toX, toY, xLabel, yLabel });
  curves.forEach(({ x, y, colour }, index) => {
    picture.append(svg("path", { d: stepPath(x, y, before, toX, toY), class: `curve curve-${(colour ?? index) % CURVES}` }));
  });
  const reading = document.createElement("p");
  reading.className = "reading";
  element.replaceChildren(picture, chartLegend(curves), reading);
  readOnHover(picture, curves, reading, { xFrom, xTo, toX, before, unit: xLabel });
}

function drawScales(picture, { xFrom, xTo, yTo, toX, toY, xLabel, yLabel }) {
  const { width, height, left, right, bottom } = CHART;
  const label = (x, y, text, anchor) => picture.append(svg("text", { x, y, "text-anchor": anchor }, text));
  const yStep = niceStep(yTo, 4);
  for (let at = 0; at <= yTo * 1.0001; at += yStep) {
    picture.append(svg("line", { x1: left, x2: width - right, y1: toY(at), y2: toY(at), class: "grid" }));
    label(left - 5, toY(at) + 4, tidy(at), "end");
  }
  const xStep = niceStep(xTo - xFrom, 5);
  for (let at = xFrom; at <= xTo; at += xStep) label(toX(at), height - bottom + 15, tidy(at), "middle");
  label((left + width - right) / 2, height - 5, xLabel, "middle");
  const middle = (height - bottom) / 2;
  picture.append(svg("text", { x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` }, yLabel));
}

/** A path of steps, thinned to the visible ones. */
function stepPath(x, y, before, toX, toY) {
  const stride = Math.max(1, Math.floor(x.length / MOST_POINTS));
  const parts = [];
  for (let at = 0; at < x.length; at += 1) {
    if (at % stride && at !== x.length - 1) continue;
    const across = toX(x[at]).toFixed(1);
    if (!parts.length) parts.push(`M${across} ${toY(before).toFixed(1)}`);
    parts.push(`H${across}V${toY(y[at]).toFixed(1)}`);
  }
  return parts.join("");
}

function chartLegend(curves) {
  const legend = document.createElement("div");
  legend.className = "chart-legend";
  curves.forEach(({ name, colour }, index) => {
    const sample = svg("svg", { width: 30, height: 8, "aria-hidden": "true" });
    sample.append(svg("path", { d: "M1 4H29", class: `curve curve-${(colour ?? index) % CURVES}` }));
    const item = document.createElement("span");
    item.append(sample, name);
    legend.append(item);
  });
  return legend;
}

/** The values of all curves at the pointer. */
function readOnHover(picture, curves, reading, { xFrom, xTo, toX, before, unit }) {
  const { width, height, left, right, top, bottom } = CHART;
  const hair = svg("line", { y1: top, y2: height - bottom, class: "hair", visibility: "hidden" });
  picture.append(hair);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const across = ((event.clientX - box.left) / box.width) * width;
    const x = xFrom + ((across - left) / (width - left - right)) * (xTo - xFrom);
    const inside = x >= xFrom && x <= xTo;
    hair.setAttribute("visibility", inside ? "visible" : "hidden");
    if (!inside) return;
    hair.setAttribute("x1", toX(x));
    hair.setAttribute("x2", toX(x));
    const parts = curves.map(({ name, x: xs, y }) => {
      const place = firstAbove(xs, 0, xs.length, x) - 1;
      return `${name} ${tidy(place < 0 ? before : y[place])}`;
    });
    reading.textContent = `${unit} ${tidy(x)}: ${parts.join(", ")}`;
  });
  picture.addEventListener("pointerleave", () => {
    hair.setAttribute("visibility", "hidden");
    reading.textContent = "";
  });
}

/** Means with their intervals, one row each, and a line at 0.  rows: [{name, mean, low, high}]; low and high may be null. */
function intervalChart(element, rows, { xLabel, colour = 0 }) {
  const { width, right, top, bottom } = CHART;
  const row = { height: 24, left: 150 };
  const height = top + rows.length * row.height + bottom;
  const xTo = 1.05 * Math.max(...rows.map(({ mean, high }) => high ?? mean), 1e-9);
  const xFrom = 1.05 * Math.min(...rows.map(({ mean, low }) => low ?? mean), 0);
  const toX = (value) => row.left + ((value - xFrom) / (xTo - xFrom)) * (width - row.left - right);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": xLabel });
  const step = niceStep(xTo - xFrom, 4);
  for (let at = Math.ceil(xFrom / step) * step; at <= xTo; at += step) {
    picture.append(svg("line", { x1: toX(at), x2: toX(at), y1: top, y2: height - bottom, class: at ? "grid" : "hair" }));
    picture.append(svg("text", { x: toX(at), y: height - bottom + 15, "text-anchor": "middle" }, tidy(at)));
  }
  rows.forEach(({ name, mean, low, high }, place) => {
    const y = top + (place + 0.5) * row.height;
    const said = low === null ? tidy(mean) : `${tidy(mean)}, 95% from ${tidy(low)} to ${tidy(high)}`;
    const label = svg("text", { x: row.left - 8, y: y + 4, "text-anchor": "end" }, shortened(name));
    label.append(svg("title", {}, `${name}: ${said}`));
    picture.append(label, svg("circle", { cx: toX(mean), cy: y, r: 3.5, class: `mean-${colour % CURVES}` }));
    if (low === null) return;
    const whisker = `M${toX(low)} ${y}H${toX(high)}M${toX(low)} ${y - 5}v10M${toX(high)} ${y - 5}v10`;
    picture.append(svg("path", { d: whisker, class: `interval curve-${colour % CURVES}` }));
  });
  picture.append(svg("text", { x: (row.left + width - right) / 2, y: height - 5, "text-anchor": "middle" }, xLabel));
  element.replaceChildren(picture);
}

function shortened(name) {
  return name.length > 23 ? `…${name.slice(-22)}` : name;
}

function greatest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

function tidy(value) {
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 3 });
}
