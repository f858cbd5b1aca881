// Attention maps that a reader looks through: one head at a time, chosen by two lists; the weight of a cell is read off
// by hovering, tapping or with the arrow keys. Without this script the page shows the drawing of one head.
"use strict";
for (const box of document.querySelectorAll(".attention-maps")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const {queries, keys, heads} = data;
  const bytes = Uint8Array.from(atob(data.weights), (c) => c.charCodeAt(0));
  const table = new DataView(bytes.buffer);
  const live = box.querySelector(".live"), canvas = box.querySelector("canvas");
  const [layerList, headList] = box.querySelectorAll("select");
  const said = box.querySelector("output"), passage = box.querySelector(".passage");
  const LEAST = 12, MOST = 26, FONT = 11.5;
  let row = queries.length - 1, column = -1, cell = LEAST, left = 0, top = 0;

  const weight = (i, j) => {
    const map = layerList.selectedIndex * heads + headList.selectedIndex;
    return table.getUint16(2 * ((map * queries.length + i) * keys.length + j), true) / 65535;
  };
  const color = (role) => getComputedStyle(box).getPropertyValue("--cr-" + role).trim();
  const short = (text) => (text.length > 12 ? text.slice(0, 11) + "…" : text);

  function draw() {
    const pen = canvas.getContext("2d"), font = FONT + "px ui-monospace, Menlo, Consolas, monospace";
    pen.font = font;
    const longest = (names) => Math.max(...names.map((name) => pen.measureText(short(name)).width));
    const upright = keys.every((name) => name.length < 2);
    left = longest(queries) + 12;
    top = upright ? FONT + 10 : longest(keys) + 12;
    const room = live.clientWidth - left - 4;
    cell = Math.max(LEAST, Math.min(MOST, Math.floor(room / keys.length)));
    const width = left + cell * keys.length + 2, height = top + cell * queries.length + 2;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    pen.scale(ratio, ratio);
    pen.font = font;
    pen.textBaseline = "middle";
    pen.fillStyle = color("1");
    for (let i = 0; i < queries.length; i++)
      for (let j = 0; j < keys.length; j++) {
        pen.globalAlpha = 0.05 + 0.95 * Math.sqrt(weight(i, j));
        pen.fillRect(left + j * cell, top + i * cell, cell - 1, cell - 1);
      }
    pen.globalAlpha = 1;
    queries.forEach((name, i) => {
      pen.textAlign = "right";
      pen.fillStyle = color(i === row ? "ink" : "soft");
      pen.fillText(short(name), left - 6, top + (i + 0.5) * cell);
    });
    keys.forEach((name, j) => {
      pen.save();
      pen.translate(left + (j + 0.5) * cell, top - (upright ? 10 : 6));
      if (!upright) pen.rotate(-Math.PI / 2);
      pen.textAlign = upright ? "center" : "left";
      pen.fillStyle = color(j === column ? "ink" : "soft");
      pen.fillText(short(name), 0, 0);
      pen.restore();
    });
    pen.strokeStyle = color("2");
    pen.lineWidth = 1.5;
    pen.strokeRect(left - 1, top + row * cell - 1, cell * keys.length + 1, cell + 1);
    if (column >= 0) {
      pen.strokeStyle = color("ink");
      pen.strokeRect(left + column * cell - 1, top + row * cell - 1, cell + 1, cell + 1);
    }
  }

  function tell() {
    const query = `query ${row + 1} “${queries[row]}”`;
    if (column >= 0) {
      said.textContent = `${query} → key ${column + 1} “${keys[column]}”: weight ${weight(row, column).toFixed(4)}`;
    } else {
      const best = keys.map((_, j) => j).sort((a, b) => weight(row, b) - weight(row, a)).slice(0, 3);
      said.textContent = `${query} attends most to ` +
        best.map((j) => `${j + 1} “${keys[j]}” ${weight(row, j).toFixed(3)}`).join(", ");
    }
    passage.replaceChildren(...keys.map((name, j) => {
      const piece = document.createElement("span");
      piece.textContent = name;
      piece.style.setProperty("--weight", Math.round(100 * Math.sqrt(weight(row, j))) + "%");
      if (j === column) piece.className = "chosen";
      return piece;
    }));
  }

  function show() {
    draw();
    tell();
  }

  function point(event) {
    const at = canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - at.left - left) / cell), i = Math.floor((event.clientY - at.top - top) / cell);
    if (i < 0 || i >= queries.length || j >= keys.length) return;
    row = i;
    column = Math.max(j, -1);
    show();
  }

  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("keydown", (event) => {
    const [down, right] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key] || [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    row = Math.max(0, Math.min(queries.length - 1, row + down));
    column = Math.max(0, Math.min(keys.length - 1, column + right));
    show();
  });
  layerList.addEventListener("change", show);
  headList.addEventListener("change", show);
  window.addEventListener("resize", show);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  box.classList.add("alive");
  live.hidden = false;
  show();
}
