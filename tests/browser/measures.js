// What tests measure in a page; each function returns plain data.

const ALLOWED = 1.5;

/** Elements with text of their own that is to be seen. */
function texts() {
  return [...document.querySelectorAll("body *")].filter((element) =>
    !["SCRIPT", "STYLE", "NOSCRIPT", "OPTION", "TEXTAREA"].includes(element.tagName)
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
    && element.checkVisibility({ visibilityProperty: true, opacityProperty: true }));
}

/** Texts that leave the window or their own box, unless a box of theirs scrolls. */
function overflowing() {
  const found = [];
  for (const element of texts()) {
    const box = element.getBoundingClientRect();
    const picture = element.closest(".picture svg");
    if (picture) {
      const whole = picture.getBoundingClientRect();
      if (box.left < whole.left - ALLOWED || box.right > whole.right + ALLOWED || box.top < whole.top - ALLOWED
        || box.bottom > whole.bottom + ALLOWED) found.push(`picture: ${element.textContent}`);
      continue;
    }
    if (element.closest(".skip")) continue;
    const scrolls = element.closest(".scroll");
    if (!scrolls && (box.left < -ALLOWED || box.right > innerWidth + ALLOWED)) found.push(`window: ${element.textContent}`);
    if (getComputedStyle(element).display !== "inline" && element.tagName !== "SELECT"
      && element.scrollWidth > element.clientWidth + ALLOWED) found.push(`box: ${element.textContent}`);
  }
  return found;
}

const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
const parsed = new Map();

/** A colour of CSS as red, green, blue [0..255] and opacity [0..1]. */
function rgba(color) {
  if (!parsed.has(color)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    parsed.set(color, [red, green, blue, alpha / 255]);
  }
  return parsed.get(color);
}

const over = (top, below) => [0, 1, 2].map((place) => top[3] * top[place] + (1 - top[3]) * below[place]);

/** Relative luminance of WCAG. */
function luminance(color) {
  const [red, green, blue] = color.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** What an element paints at a point: a colour, or nothing. */
function painted(element) {
  const look = getComputedStyle(element);
  const isShape = element instanceof SVGGeometryElement;
  if (element.closest("svg") && !isShape) return null;
  const [red, green, blue, alpha] = rgba(isShape ? look.fill.replace("none", "transparent") : look.backgroundColor);
  const opacity = Number(look.opacity) * (isShape ? Number(look.fillOpacity) : 1);
  return alpha * opacity > 0 ? [red, green, blue, alpha * opacity] : null;
}

/** Of every text its contrast to what is behind its middle. */
function contrasts() {
  return texts().flatMap((element) => {
    const box = element.getBoundingClientRect();
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    if (!box.width || x < 0 || y < 0 || x > innerWidth || y > innerHeight) return [];
    const stack = document.elementsFromPoint(x, y);
    const isDrawn = element.closest("svg") !== null;
    const layers = (isDrawn ? stack : [element, ...ancestors(element)]).map(painted).filter(Boolean);
    const ground = layers.reduceRight((below, top) => over(top, below), [255, 255, 255]);
    const look = getComputedStyle(element);
    const [red, green, blue, alpha] = rgba(isDrawn ? look.fill : look.color);
    const opacity = [element, ...ancestors(element)].reduce((product, each) => product * Number(getComputedStyle(each).opacity), 1);
    const type = over([red, green, blue, alpha * opacity * (isDrawn ? Number(look.fillOpacity) : 1)], ground);
    const [dark, light] = [luminance(type), luminance(ground)].sort((one, other) => one - other);
    return [{ where: element.tagName, text: element.textContent.slice(0, 40), ratio: (light + 0.05) / (dark + 0.05) }];
  });
}

function ancestors(element) {
  return element.parentElement ? [element.parentElement, ...ancestors(element.parentElement)] : [];
}

/** What tells those who do not see where things stand. */
function structure() {
  const all = (query) => [...document.querySelectorAll(query)];
  const ids = all("[id]").map((element) => element.id);
  const name = (element) => element.getAttribute("aria-label") || element.labels?.[0]?.textContent || element.textContent.trim()
    || document.getElementById(element.getAttribute("aria-labelledby"))?.textContent;
  return {
    levels: all("h1, h2, h3, h4, h5, h6").map((element) => Number(element.tagName[1])),
    landmarks: Object.fromEntries(["header", "main", "nav", "footer"].map((tag) => [tag, all(`body > ${tag}, main > ${tag}`).length])),
    language: document.documentElement.lang,
    twice: ids.filter((id, place) => ids.indexOf(id) !== place),
    nowhere: all("a[href^='#']").map((link) => link.hash.slice(1)).filter((id) => !document.getElementById(decodeURIComponent(id))),
    unnamed: all("[role=img], button, select, textarea, summary, nav, section, table").filter((element) =>
      !(element.matches("table") ? element.caption?.textContent : element.matches("[role=img], select, textarea")
        ? element.getAttribute("aria-label") || element.labels?.[0]?.textContent : name(element))).map((element) => element.outerHTML.slice(0, 80)),
    unscoped: all("th").filter((head) => !head.scope).map((head) => head.textContent),
  };
}
