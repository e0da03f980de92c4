"use strict";
// Sliders: each move asks for the closed form, and once it rests for the simulation and its picture.
(() => {
  const REST = 60; // ms without a move until it is simulated
  const knobs = JSON.parse(document.getElementById("knobs").textContent);
  const page = crypto.getRandomValues(new Uint32Array(2)).join("");
  const part = (name) => document.getElementById(name);
  const inputs = new Map();
  let number = 0;
  let timer = 0;
  let going = new AbortController();
  let closed = {};
  let simulated = {};

  function query() {
    const words = new URLSearchParams({ page, n: number });
    for (const knob of knobs) {
      const place = Number(inputs.get(knob.name).value);
      if (place !== knob.start) words.set(knob.name, place);
    }
    return words;
  }

  async function ask(what, mine) {
    try {
      const found = await (await fetch(`${what}?${query()}`, { signal: going.signal })).json();
      return mine === number && !found.stale ? found : null; // what is late is dropped
    } catch {
      if (mine === number) complain("The program that shows this page has ended.");
      return null;
    }
  }

  function busy(is) {
    for (const name of ["answer", "picture", "metrics"]) part(name).setAttribute("aria-busy", is);
  }

  function complain(text) {
    part("trouble").hidden = !text;
    part("trouble").textContent = text;
  }

  function cell(kind, text, share) {
    const made = document.createElement(kind);
    made.textContent = text;
    if (kind === "th") made.scope = "row"; else made.className = "number";
    if (share !== undefined) made.style.setProperty("--share", Math.max(0, share).toFixed(3));
    return made;
  }

  function fill(table, rows) {
    part(table).tBodies[0].replaceChildren(...rows.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells);
      return row;
    }));
  }

  function show() {
    const formulaSays = closed.ettr ? `ETTR ${closed.ettr} by the closed form` : "No closed form";
    part("answer").textContent = closed.error ? "It cannot run like this."
      : `${formulaSays}; ${simulated.ettr ? `${simulated.ettr} simulated.` : "it is being simulated …"}`;
    part("facts").textContent = `${closed.why ? `${closed.why}. ` : ""}${closed.facts ?? ""}`;
    part("how").textContent = simulated.how ? `${simulated.how} ${simulated.apart}` : "";
    part("command").textContent = closed.command ?? "";
    const [formula, seen] = [closed.shares ?? {}, simulated.shares ?? {}];
    fill("shares", [...new Set([...Object.keys(formula), ...Object.keys(seen)])].map((name) => {
      const [label] = formula[name] ?? seen[name];
      const values = [formula[name], seen[name]].map((found) => (found ? cell("td", found[1], found[2]) : cell("td", "")));
      return [cell("th", label), ...values];
    }));
  }

  async function simulate(mine) {
    const found = await ask("simulated", mine);
    if (!found) return;
    if (found.error) { complain(found.error); return; }
    simulated = found;
    fill("metrics", found.metrics.map(([name, ...cells]) => [cell("th", name), ...cells.map((text) => cell("td", text))]));
    show();
    const drawn = await ask("picture", mine);
    if (!drawn) return;
    part("picture").innerHTML = drawn.picture;
    part("picture").setAttribute("aria-label", drawn.title);
    busy("false");
    document.body.dataset.simulated = mine;
    part("answer").setAttribute("aria-busy", !found.done); // said once, when nothing is added any more
    if (!found.done) timer = setTimeout(simulate, 0, mine);
  }

  async function change() {
    number += 1;
    const mine = number;
    clearTimeout(timer);
    going.abort();
    going = new AbortController();
    busy("true");
    for (const knob of knobs) {
      const input = inputs.get(knob.name);
      const text = knob.stops[input.value];
      input.setAttribute("aria-valuetext", text);
      part(`now-${knob.name}`).textContent = text;
    }
    const words = query();
    words.delete("page");
    words.delete("n");
    part("study").href = `study?${words}`;
    part("study").hidden = !words.size;
    part("report").href = `report?${words}`;
    part("said").textContent = "";
    const found = await ask("closed", mine);
    if (!found) return;
    complain(found.error ?? "");
    closed = found;
    simulated = {};
    if (found.error) part("answer").setAttribute("aria-busy", "false");
    document.body.dataset.closed = mine;
    show();
    if (!found.error) timer = setTimeout(simulate, REST, mine);
  }

  for (const knob of knobs) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    const output = document.createElement("output");
    const worth = document.createElement("small");
    Object.assign(input, { type: "range", name: knob.name, min: 0, max: knob.stops.length - 1, step: 1, value: knob.start });
    output.id = `now-${knob.name}`;
    worth.textContent = knob.worth;
    label.append(knob.title, output, input, worth);
    input.addEventListener("input", change);
    inputs.set(knob.name, input);
    part("sliders").append(label);
  }
  part("reset").addEventListener("click", () => {
    for (const knob of knobs) inputs.get(knob.name).value = knob.start;
    change();
  });
  part("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(closed.command);
      part("said").textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(part("command"));
      part("said").textContent = "Selected: copy it with Ctrl-C.";
    }
  });
  change();
})();
