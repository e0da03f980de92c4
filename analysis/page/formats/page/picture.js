"use strict";
// The picture of the explorer: lines or dots of cells, with their intervals and bands.
const explorerPicture = ({ axes, metrics }, state) => {
  const [MEAN, LOW, HIGH, BAND_LOW, BAND_HIGH] = [0, 1, 2, 3, 4];
  const COLORS = ["0072b2", "d55e00", "009e73", "bf7da9", "683500", "23246e", "a050f0", "7a1040"];
  const TRIES = [1, 2, 2.5, 5, 10];
  const MANY = 6; // lines whose intervals still do not hide each other
  const SIZE = { width: 860, height: 400, top: 32, bottom: 62, left: 74 };

  const WIDEST = SIZE.width / 3; // names that are wider stand below the picture
  const LINE = 18;

  function node(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** Round numbers from one value to another: about five, and their digits. */
  function ticksOf(low, high) {
    const span = high - low || Math.abs(high) || 1;
    const power = 10 ** Math.floor(Math.log10(span / 5));
    const step = power * TRIES.find((factor) => factor * power * 5.5 >= span);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / power === 2.5 ? 1 : 0));
    const first = Math.floor(low / step + 1e-9);
    const last = Math.max(Math.ceil(high / step - 1e-9), first + 1);
    const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
    return { ticks, digits: Math.min(digits, 12) };
  }

  /** Places of the values of the axis along the bottom, from 0 to 1. */
  function placesOf(axis, used) {
    const { numbers, values } = axis;
    if (!numbers) return values.map((_, place) => (used.length < 2 ? 0.5 : used.indexOf(place) / (used.length - 1)));
    const isLog = numbers[0] > 0 && numbers.at(-1) / numbers[0] >= 16;
    const heights = isLog ? numbers.map(Math.log) : numbers;
    const [low, high] = [heights[used[0]], heights[used.at(-1)]];
    return heights.map((height) => (high > low ? (height - low) / (high - low) : 0.5));
  }

  const least = (values) => values.reduce((one, other) => Math.min(one, other), Infinity);
  const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const ruler = document.createElement("canvas").getContext("2d");
  /** How wide a text is in the picture. */
  function widthOf(text) {
    ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return 1.04 * ruler.measureText(text).width;
  }
  const colorOf = (number) => `var(--p${COLORS[number % COLORS.length]})`;
  const roundOf = (number) => Math.floor(number / COLORS.length) % 4; // how often the colours were used up before
  const dashOf = (number) => ["none", "7 4", "2 3", "9 3 2 3"][roundOf(number)];
  /** A mark: full in the first round of colours, hollow in the second, then squares. */
  function markOf(x, y, number, name) {
    const look = { class: name, stroke: colorOf(number), "stroke-width": 2, fill: roundOf(number) % 2 ? "var(--page)" : colorOf(number) };
    return roundOf(number) < 2 ? node("circle", { cx: x, cy: y, r: 3.5, ...look })
      : node("rect", { x: x - 3.5, y: y - 3.5, width: 7, height: 7, ...look });
  }

  /** Cells as a picture, and where the marks are. */
  function draw(list) {
    const metric = metrics[state.metric];
    const groups = new Map();
    for (const cell of list) {
      const key = state.series < 0 ? 0 : cell.at[state.series];
      groups.set(key, [...(groups.get(key) ?? []), cell]);
    }
    const ends = list.flatMap((cell) => cell.numbers[state.metric]?.slice(0, 5) ?? []).filter((end) => end !== null);
    const names = [...groups.keys()].map((key) => (state.series < 0 ? "" : short(axes[state.series].values[key], 100)));
    const widest = Math.max(0, ...names.map(widthOf));
    const isBelow = widest > WIDEST;
    const right = isBelow ? 4 : 34 + widest;
    const height = Math.max(SIZE.height, 16 * (isBelow ? 0 : groups.size) + SIZE.top + SIZE.bottom);
    const inner = { width: SIZE.width - SIZE.left - right - 20, height: height - SIZE.top - SIZE.bottom };
    const used = [...new Set(list.map((cell) => cell.at[state.x]))].sort((one, other) => one - other);
    const places = placesOf(axes[state.x], used);
    const { ticks, digits } = ends.length ? ticksOf(least(ends), -least(ends.map((end) => -end))) : { ticks: [], digits: 0 };
    const xAt = (cell) => SIZE.left + 10 + places[cell.at[state.x]] * inner.width;
    const yAt = (value) => SIZE.top + (1 - (value - ticks[0]) / (ticks.at(-1) - ticks[0])) * inner.height;
    const svg = node("svg", { viewBox: `0 0 ${SIZE.width} ${height}`, tabindex: 0, role: "img" });
    const unit = metric.unit && ` [${metric.unit}]`;
    svg.setAttribute("aria-label", `${metric.title}${unit} along ${axes[state.x].title}. Use the arrow keys to read values.`);
    for (const tick of ticks) {
      const text = tick.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
      svg.append(node("line", { class: "grid", x1: SIZE.left, x2: SIZE.left + inner.width + 20, y1: yAt(tick), y2: yAt(tick) }),
        node("text", { x: SIZE.left - 8, y: yAt(tick) + 4, "text-anchor": "end" }, text));
    }
    labelBottom(svg, used, places, inner, height);
    svg.append(node("text", { class: "quiet", x: 4, y: 11 }, `${metric.title}${unit}`));
    const marks = [];
    const labels = [];
    const colorIn = (key) => (state.series < 0 ? 0 : key);
    for (const [key, group] of groups) drawDoubt(svg, group, colorIn(key), xAt, yAt, groups.size > MANY);
    [...groups].forEach(([key, group], number) => {
      const color = colorIn(key);
      drawGroup(svg, group, color, xAt, yAt, height, marks);
      const last = group.findLast((cell) => cell.numbers[state.metric]);
      if (last && names[number]) labels.push({ name: names[number], color, y: yAt(last.numbers[state.metric][MEAN]) });
    });
    if (isBelow) labelBelow(svg, labels, height);
    else labelSeries(svg, labels, SIZE.left + inner.width + 26, height - SIZE.bottom);
    svg.append(node("circle", { class: "here", r: 8, visibility: "hidden" }));
    return { svg, marks };
  }

  function labelBottom(svg, used, places, inner, height) {
    const y = height - SIZE.bottom + 24;
    let free = -Infinity;
    for (const place of used) {
      const most = axes[state.x].numbers ? 16 : Math.max(8, Math.floor(inner.width / used.length / 7));
      const text = short(axes[state.x].values[place], most);
      const half = 3.7 * text.length;
      const x = Math.min(SIZE.left + 10 + places[place] * inner.width, SIZE.width - half);
      if (x - half < free) continue;
      free = x + half + 8;
      svg.append(node("text", { x, y, "text-anchor": "middle" }, text));
    }
    svg.append(node("text", { class: "quiet", x: SIZE.left + 10 + inner.width / 2, y: y + 24, "text-anchor": "middle" },
      axes[state.x].title));
  }

  /** Whether a group is a line: its places have an order, and each has one cell. */
  const isLine = (group) => axes[state.x].numbers !== null
    && new Set(group.map((cell) => cell.at[state.x])).size === group.length;
  const knownOf = (group) => group.filter((cell) => cell.numbers[state.metric]);

  /** Interval and band of a group; of many groups only that is seen which is being read. */
  function drawDoubt(svg, group, color, xAt, yAt, isHidden) {
    const known = knownOf(group);
    const areas = node("g", { class: "doubt", "data-group": color, visibility: isHidden ? "hidden" : "visible" });
    for (const [low, high, opacity, width] of [[BAND_LOW, BAND_HIGH, 0.14, 1.2], [LOW, HIGH, 0.3, 3]]) {
      const sure = known.filter((cell) => cell.numbers[state.metric][low] !== null);
      const end = (cell, which) => `${xAt(cell)},${yAt(cell.numbers[state.metric][which])}`;
      if (isLine(group) && sure.length > 1 && sure.length === known.length) {
        const points = [...sure.map((cell) => end(cell, high)), ...sure.toReversed().map((cell) => end(cell, low))];
        areas.append(node("polygon", { points: points.join(" "), fill: colorOf(color), opacity }));
      } else {
        for (const cell of sure) {
          areas.append(node("path", { d: `M${end(cell, low)}L${end(cell, high)}`, "stroke-width": width,
            opacity: opacity + 0.3, stroke: colorOf(color) }));
        }
      }
    }
    svg.append(areas);
  }

  /** One line, or dots where several cells share a place or places have no order. */
  function drawGroup(svg, group, color, xAt, yAt, height, marks) {
    const known = knownOf(group);
    const paint = { stroke: colorOf(color), fill: "none" };
    if (isLine(group)) {
      const points = known.map((cell) => `${xAt(cell)},${yAt(cell.numbers[state.metric][MEAN])}`).join(" ");
      svg.append(node("polyline", { points, "stroke-width": 2, "stroke-dasharray": dashOf(color), ...paint }));
    }
    for (const cell of group) {
      const numbers = cell.numbers[state.metric];
      const [x, y] = [xAt(cell), numbers ? yAt(numbers[MEAN]) : height - SIZE.bottom];
      marks.push({ cell, x, y, group: color });
      svg.append(numbers ? markOf(x, y, color, "mark")
        : node("path", { d: `M${x - 4},${y - 4}l8,8m0,-8l-8,8`, "stroke-width": 2, ...paint }));
    }
  }

  /** Names at the ends of lines, pushed apart where they would cover each other. */
  function labelSeries(svg, labels, x, bottom) {
    labels.sort((one, other) => one.y - other.y);
    labels.forEach((each, index) => { each.y = Math.max(each.y, index ? labels[index - 1].y + 15 : SIZE.top); });
    let free = bottom + 4;
    for (const each of labels.toReversed()) {
      each.y = Math.min(each.y, free);
      free = each.y - 15;
    }
    for (const { name, color, y } of labels) {
      drawKey(svg, x, y, color, name);
    }
  }

  /** The mark of a line and its name. */
  function drawKey(svg, x, y, color, name) {
    const line = { d: `M${x},${y}h18`, "stroke-width": 2, stroke: colorOf(color), "stroke-dasharray": dashOf(color) };
    const group = node("g", { class: "key" });
    group.append(node("path", line), markOf(x + 9, y, color, "swatch"), node("text", { x: x + 23, y: y + 4 }, name));
    svg.append(group);
  }

  /** Names in lines below the picture, which becomes higher by them. */
  function labelBelow(svg, labels, height) {
    let [x, y] = [SIZE.left, height + 4];
    for (const { name, color } of labels) {
      const width = 23 + widthOf(name);
      if (x > SIZE.left && x + width > SIZE.width) [x, y] = [SIZE.left, y + LINE];
      drawKey(svg, x, y, color, name);
      x += width + 20;
    }
    svg.setAttribute("viewBox", `0 0 ${SIZE.width} ${y + LINE / 2}`);
  }

  return { draw, least, MANY, SIZE };
};
