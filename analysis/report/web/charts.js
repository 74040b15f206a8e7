"use strict";
// Small charts as SVG: steps over time, and cumulative distributions.

const SVG = "http://www.w3.org/2000/svg";
const CHART = { width: 460, height: 210, left: 46, right: 12, top: 10, bottom: 36 };
const MOST_POINTS = 1200;
const LETTER_PIXELS = 6.2;
const FEWEST_VALUES = 5;

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

/**
 * Share of values at or below x.  groups: [{name, values}], with ascending values.  Of fewer than five values a curve would say more
 * than is known, so each of them is a dot.
 */
function distributionChart(element, groups, { xLabel, yLabel }) {
  const known = groups.map((group, place) => ({ colour: place, ...group })).filter(({ values }) => values.length);
  const [few, many] = [known.filter(({ values }) => values.length < FEWEST_VALUES), known.filter(({ values }) => values.length >= FEWEST_VALUES)];
  const [curves, dots] = [document.createElement("div"), document.createElement("div")];
  element.replaceChildren(...(many.length ? [curves] : []), ...(few.length ? [dots] : []));
  if (many.length) distributionCurves(curves, many, { xLabel, yLabel });
  if (few.length) rowsChart(dots, few.map(({ name, values, colour }) => ({ name, dots: values, colour })), { xLabel, zero: true });
}

function distributionCurves(element, groups, { xLabel, yLabel }) {
  const curves = groups.map(({ name, values, colour }) => ({ name, colour, x: values, y: Array.from(values, (_, place) => (place + 1) / values.length) }));
  const xTo = Math.max(...curves.map(({ x }) => x.at(-1))) || 1; // where all take no time, the axis still needs a length
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

/** Means with their intervals, one row each.  rows: [{name, mean, low, high}]; low and high may be null. */
function intervalChart(element, rows, { xLabel, colour = 0, zero = false }) {
  rowsChart(element, rows.map(({ name, mean, low, high }) => ({ name, dots: [mean], low, high, colour })), { xLabel, zero });
}

/**
 * One row each: dots, and an interval where there is one.  The axis shows what lies between the values, so that differences can be
 * seen; with `zero` it has a line at 0.
 */
function rowsChart(element, rows, { xLabel, zero }) {
  const { width, right, top, bottom } = CHART;
  const longest = LETTER_PIXELS * greatest(rows.map(({ name }) => name.length));
  const isAbove = longest > width / 3; // a long name is above its row, so that none is cut
  const row = isAbove ? { height: 36, left: 14, at: 0.7 } : { height: 24, left: longest + 16, at: 0.5 };
  const height = top + rows.length * row.height + bottom;
  const scale = rowsScale(rows, zero);
  const toX = (value) => row.left + ((value - scale.from) / (scale.to - scale.from)) * (width - row.left - right);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${xLabel}: ${rows.map(({ name }) => name).join(", ")}` });
  for (let at = Math.ceil(scale.from / scale.step) * scale.step; at <= scale.to; at += scale.step) {
    const isZero = Math.abs(at) < scale.step / 1e6;
    picture.append(svg("line", { x1: toX(at), x2: toX(at), y1: top, y2: height - bottom, class: isZero ? "hair" : "grid" }));
    picture.append(svg("text", { x: toX(at), y: height - bottom + 15, "text-anchor": "middle" }, tickText(at, scale.step)));
  }
  rows.forEach((one, place) => {
    const y = top + (place + row.at) * row.height;
    const label = isAbove ? { x: row.left, y: y - 10 } : { x: row.left - 8, y: y + 4, "text-anchor": "end" };
    picture.append(svg("text", label, one.name), ...rowMarks(one, y, toX));
  });
  picture.append(svg("text", { x: (row.left + width - right) / 2, y: height - 5, "text-anchor": "middle" }, xLabel));
  element.replaceChildren(picture);
}

/** The ends of the axis of rows, and the step between its numbers. */
function rowsScale(rows, zero) {
  const values = rows.flatMap(({ dots, low, high }) => [...dots, low ?? dots[0], high ?? dots[0]]).concat(zero ? [0] : []);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const margin = 0.08 * (most - least || Math.abs(most) || 1);
  const [from, to] = [zero && least === 0 ? 0 : least - margin, most + margin];
  return { from, to, step: niceStep(to - from, 4) };
}

function rowMarks({ name, dots, low, high, colour }, y, toX) {
  const said = (low ?? null) === null ? dots.map(tidy).join(", ") : `${tidy(dots[0])}, 95% from ${tidy(low)} to ${tidy(high)}`;
  const marks = Array.from(dots, (value) => svg("circle", { cx: toX(value), cy: y, r: 3.5, class: `mean-${colour % CURVES}` }, svg("title", {}, `${name}: ${said}`)));
  if ((low ?? null) === null) return marks;
  const whisker = `M${toX(low)} ${y}H${toX(high)}M${toX(low)} ${y - 5}v10M${toX(high)} ${y - 5}v10`;
  return [...marks, svg("path", { d: whisker, class: `interval curve-${colour % CURVES}` })];
}

/** A number on an axis, with as many decimals as the steps between its numbers need. */
function tickText(value, step) {
  const decimals = Math.min(6, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return (Math.abs(value) < step / 1e6 ? 0 : value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** How much of the cluster is in use, in percent: of its containers or, if these have sizes, of each resource. */
function usedOf(run) {
  const percent = (values, whole) => Float32Array.from(values, (value) => (100 * value) / whole);
  if (!run.resources.length) return [{ name: "at work", x: run.at_work_s, y: percent(run.at_work_n, run.containers) }];
  return run.resources.map((name, number) => ({ name, x: run[`resource_${number}_s`], y: percent(run[`resource_${number}_share`], 1) }));
}

function utilizationChart(element, run, used, time) {
  const yLabel = run.resources.length ? "held, %" : "containers, %";
  stepChart(element, used, { ...time, yLabel, most: Math.max(100, ...used.map(({ y }) => greatest(y))) });
}

function greatest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

function tidy(value) {
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 3 });
}
