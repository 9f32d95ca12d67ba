"use strict";
// What comes from files and from other hosts becomes text or an attribute, never markup.
const SVG = "http://www.w3.org/2000/svg";

/** An element of HTML: its kind, "div" or "div.class"; attributes; and children, which are elements or text. */
function el(kind, attributes, ...children) {
  const [name, ...classes] = kind.split(".");
  return filled(document.createElement(name), classes, attributes, children);
}

/** The same of SVG. */
function draw(kind, attributes, ...children) {
  const [name, ...classes] = kind.split(".");
  return filled(document.createElementNS(SVG, name), classes, attributes, children);
}

function filled(made, classes, attributes, children) {
  if (classes.length) made.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Bars beside each other. rows: [label, number, shown, is remarkable]. */
function bars(rows) {
  const most = Math.max(1e-9, ...rows.map((row) => row[1]));
  return el("div.bars", {}, rows.map(([label, number, shown, remarkable]) => [
    el("span", {}, label),
    el(remarkable ? "i.warn" : "i", { style: `width: ${(100 * number) / most}%` }),
    el("span", {}, shown ?? String(number)),
  ]));
}

/** Bars on an axis. counts: of each bar; edges: one more than bars, in words. */
function histogram(counts, edges) {
  const width = 380, height = 120, most = Math.max(1, ...counts), step = width / counts.length;
  const tall = (count) => (count ? Math.max(1.5, (count / most) * (height - 14)) : 0);
  const marks = [0, Math.floor(counts.length / 2), counts.length];
  return draw("svg", { viewBox: `0 0 ${width} ${height + 18}`, role: "img", "aria-label": counts.map((count, at) => `${edges[at]}: ${count}`).join(", ") },
    counts.map((count, at) => draw("rect.bar", { x: at * step + 0.5, y: height - tall(count), width: Math.max(1, step - 1), height: tall(count) },
      draw("title", {}, `${edges[at]} to ${edges[at + 1]}: ${count}`))),
    draw("line.axis", { x1: 0, x2: width, y1: height, y2: height }),
    draw("text", { x: 0, y: 11 }, String(most)),
    marks.map((at) => draw("text", { x: at * step, y: height + 14, "text-anchor": at === 0 ? "start" : at === counts.length ? "end" : "middle" }, edges[at])));
}

/** A table. heads: texts, those that begin with "#" are of numbers; rows: of elements or texts. */
function table(heads, rows) {
  const kind = (at, name) => (heads[at].startsWith("#") ? `${name}.number` : name);
  return el("div.scroll", {}, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((head, at) => el(kind(at, "th"), {}, head.replace("#", ""))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, at) => el(kind(at, "td"), { "data-head": heads[at].replace("#", "") }, cell)))))));
}

function tiles(pairs) {
  return el("div.tiles", {}, pairs.map(([value, name]) => el("div.tile", {}, el("b", {}, value), el("span.dim", {}, name))));
}
