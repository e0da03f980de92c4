"use strict";
// The explorer: every combination that was simulated, along the axes that the reader picks.
(() => {
  const part = (name) => document.getElementById(`explorer-${name}`);
  const data = JSON.parse(part("data").textContent);
  const { axes, metrics, cells, start } = data;
  const ALL = -1;
  const PREFIX = "#explore:";
  const [LOW, BAND_LOW] = [1, 3]; // places in the numbers of a cell

  // ------------------------------------------------------------------ what is shown
  const state = { x: start.x, series: start.series, metric: 0, at: [...start.at] };
  const { draw, least, MANY, SIZE } = explorerPicture(data, state);
  let marks = [];
  let current = -1;

  /** Whether the cell is not taken away by the values that are kept. */
  const isShown = (cell) => axes.every((_, place) =>
    place === state.x || place === state.series || state.at[place] === ALL || cell.at[place] === state.at[place]);

  const label = (cell, place) => axes[place].values[cell.at[place]];
  const byPlace = (one, other) =>
    (state.series < 0 ? 0 : one.at[state.series] - other.at[state.series]) || one.at[state.x] - other.at[state.x];
  const shown = () => cells.filter(isShown).sort(byPlace);

  /** A cell in words: where it is, its value, and each of the three doubts. */
  function worded(cell) {
    const [mean, interval, band, spread, why] = cell.texts[state.metric];
    const where = axes.map((axis, place) => `${axis.title} ${label(cell, place)}`).join(", ");
    if (why) return `${where}: ${why}.`;
    const doubts = [
      interval ? `95 % interval of the mean ${interval}` : "no interval: all runs came to the same, or there is only one",
      band && `90 % band of unknown inputs ${band}`,
      spread && `nine of ten runs within ${spread}`,
    ];
    return `${where}: ${metrics[state.metric].title} ${mean}; ${doubts.filter(Boolean).join("; ")}.`;
  }

  // ------------------------------------------------------------------ the address keeps it
  function write() {
    const words = new URLSearchParams({ x: axes[state.x].key, metric: metrics[state.metric].key });
    words.set("series", state.series < 0 ? "" : axes[state.series].key);
    axes.forEach((axis, place) => {
      if (place !== state.x && place !== state.series && state.at[place] !== ALL) {
        words.set(`at.${axis.key}`, axis.values[state.at[place]]);
      }
    });
    const address = PREFIX + words;
    try { history.replaceState(null, "", address); } catch { location.replace(address); }
  }

  /** Take over what the address says; what it does not name, or names wrongly, stays. */
  function read() {
    if (!location.hash.startsWith(PREFIX)) return false;
    const words = new URLSearchParams(location.hash.slice(PREFIX.length));
    const placeOf = (list, key) => list.findIndex((entry) => entry.key === key);
    const x = placeOf(axes, words.get("x"));
    const series = placeOf(axes, words.get("series"));
    const metric = placeOf(metrics, words.get("metric"));
    if (x >= 0) state.x = x;
    if (words.has("series")) state.series = series >= 0 && series !== state.x && axes[series].few ? series : ALL;
    if (state.series === state.x) state.series = ALL;
    if (metric >= 0) state.metric = metric;
    axes.forEach((axis, place) => {
      if (place !== state.x && place !== state.series) state.at[place] = axis.values.indexOf(words.get(`at.${axis.key}`));
    });
    return true;
  }

  // ------------------------------------------------------------------ controls
  function chooser(name, title, options, chosen, change) {
    const box = document.createElement("label");
    const select = document.createElement("select");
    select.name = name;
    for (const [value, text] of options) select.add(new Option(text, value, value === chosen, value === chosen));
    select.addEventListener("change", () => {
      change(Number(select.value));
      write();
      show(name);
    });
    box.append(title, select);
    return box;
  }

  function controls(focused) {
    const titles = axes.map((axis, place) => [place, axis.title]);
    const boxes = [
      chooser("metric", "Metric", metrics.map((metric, place) => [place, metric.title]), state.metric,
        (value) => { state.metric = value; }),
      chooser("x", "Along the bottom", titles, state.x, (value) => {
        if (value === state.series) state.series = axes[state.x].few ? state.x : ALL;
        state.x = value;
      }),
      chooser("series", "One line for each", [[ALL, "nothing"],
        ...titles.filter(([place]) => place !== state.x && axes[place].few)], state.series,
        (value) => { state.series = value; }),
    ];
    axes.forEach((axis, place) => {
      if (place === state.x || place === state.series || !axis.few) return;
      boxes.push(chooser(`at.${axis.key}`, axis.title,
        [[ALL, "all values"], ...axis.values.map((text, value) => [value, text])], state.at[place],
        (value) => { state.at[place] = value; }));
    });
    part("controls").replaceChildren(...boxes);
    if (focused) part("controls").querySelector(`[name="${CSS.escape(focused)}"]`)?.focus();
  }

  // ------------------------------------------------------------------ reading values
  function point(index) {
    current = index;
    const ring = part("picture").querySelector(".here");
    const mark = marks[index];
    ring.setAttribute("visibility", mark ? "visible" : "hidden");
    if (mark) {
      ring.setAttribute("cx", mark.x);
      ring.setAttribute("cy", mark.y);
    }
    const doubts = part("picture").querySelectorAll(".doubt");
    if (doubts.length > MANY) {
      for (const doubt of doubts) {
        doubt.setAttribute("visibility", mark && Number(doubt.dataset.group) === mark.group ? "visible" : "hidden");
      }
    }
    part("value").textContent = mark ? worded(mark.cell) : "Point at a mark to read its exact values.";
  }

  function nearest(event, svg) {
    const box = svg.getBoundingClientRect();
    const scale = SIZE.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const distances = marks.map((mark) => Math.hypot(mark.x - x, mark.y - y));
    const best = distances.indexOf(least(distances));
    if (best >= 0 && distances[best] < 40 && best !== current) point(best);
  }

  function walk(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !marks.length) return;
    const [ahead, along] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key] ?? [0, 0];
    let next = current;
    if (current < 0 && (ahead || along)) next = 0;
    else if (ahead) next = Math.min(Math.max(current + ahead, 0), marks.length - 1);
    else if (along) {
      const rest = marks.map((_, index) => index).filter((index) => Math.abs(marks[index].x - marks[current].x) < 0.5);
      next = rest[rest.indexOf(current) + along] ?? current;
    } else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = marks.length - 1;
    else if (event.key === "Escape") next = -1;
    else return;
    event.preventDefault();
    point(next);
  }

  // ------------------------------------------------------------------ table and CSV
  const HEADS = ["mean", "95 % interval of the mean", "90 % band of unknown inputs", "nine of ten runs"];

  function tabulate(list) {
    const { title, unit } = metrics[state.metric];
    const table = document.createElement("table");
    table.createCaption().textContent = `${title}${unit && `, in ${unit}`}`;
    const present = HEADS.map((_, place) => place === 0 || list.some((cell) => cell.texts[state.metric][place]));
    const heads = [...axes.map((axis) => axis.title), ...HEADS.filter((_, place) => present[place])];
    const head = table.createTHead().insertRow();
    heads.forEach((text, place) => {
      const cell = Object.assign(document.createElement("th"), { scope: "col", textContent: text });
      if (place >= axes.length) cell.className = "number";
      head.append(cell);
    });
    const body = table.createTBody();
    for (const cell of list) {
      const row = body.insertRow();
      row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: label(cell, 0) }));
      for (let place = 1; place < axes.length; place += 1) row.insertCell().textContent = label(cell, place);
      const texts = cell.texts[state.metric];
      HEADS.forEach((_, place) => {
        if (!present[place]) return;
        const entry = row.insertCell();
        entry.textContent = texts[place] || (place ? "none" : texts.at(-1));
        if (texts[place]) entry.className = "number";
      });
    }
    return table;
  }

  function csv() {
    const { title, unit } = metrics[state.metric];
    const quoted = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
    const ends = ["95 % low", "95 % high", "90 % band low", "90 % band high", "5 % of runs", "95 % of runs"];
    const heads = [...axes.map((axis) => axis.title), title + (unit && ` [${unit}]`), ...ends, "why not"];
    const rows = shown().map((cell) => [...axes.map((_, place) => label(cell, place)),
      ...(cell.numbers[state.metric] ?? Array(7).fill("")).map((value) => value ?? ""), cell.texts[state.metric].at(-1)]);
    return [heads, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  }

  async function copy() {
    const [text, count] = [csv(), shown().length];
    const area = part("csv");
    try {
      await navigator.clipboard.writeText(text);
      part("copied").textContent = `${count} ${count === 1 ? "row" : "rows"} copied.`;
      area.hidden = true;
    } catch {
      area.value = text;
      area.hidden = false;
      area.select();
      part("copied").textContent = "This browser does not let a page copy: the rows are below, selected.";
    }
  }

  // ------------------------------------------------------------------ all of it
  function show(focused) {
    const list = shown();
    controls(focused);
    const { svg, marks: drawn } = draw(list);
    marks = drawn;
    svg.addEventListener("pointermove", (event) => nearest(event, svg));
    svg.addEventListener("pointerdown", (event) => nearest(event, svg));
    svg.addEventListener("keydown", walk);
    svg.addEventListener("focus", () => { if (current < 0 && marks.length) point(0); });
    part("picture").replaceChildren(svg);
    part("key").textContent = keyOf(list);
    part("table").replaceChildren(tabulate(list));
    part("copied").textContent = "";
    part("csv").hidden = true;
    point(-1);
  }

  /** The meaning of the marks, and their number: only for marks that are shown. */
  function keyOf(list) {
    const has = (place) => list.some((cell) => (cell.numbers[state.metric]?.[place] ?? null) !== null);
    const sentences = [`${list.length} of ${cells.length} combinations are shown.`];
    if (has(LOW)) sentences.push("Darker: the 95 % interval of the mean.");
    if (part("picture").querySelectorAll(".doubt").length > MANY) sentences.push("Of so many lines only that has its interval which is being read.");
    if (has(BAND_LOW)) sentences.push(`Paler: the 90 % band of unknown inputs${data.unknown.length ? `: ${data.unknown.join(", ")}` : ""}.`);
    if (list.some((cell) => !cell.numbers[state.metric])) sentences.push("A cross at the bottom: there is no mean, and the text says why.");
    return sentences.join(" ");
  }

  part("copy").addEventListener("click", copy);
  addEventListener("hashchange", () => { if (read()) show(); });
  part("body").hidden = false;
  if (read()) part("body").scrollIntoView();
  show();
})();
