// A drawing of the page as a file of its own: SVG with the look that the page's style sheet gives it.

import { colour, h, toast } from './dom.js';
import { bytes } from './format.js';

const NAMESPACE = 'http://www.w3.org/2000/svg';
/// What the style sheet may say of a shape or a text.
const LOOK = [
  'fill',
  'fill-opacity',
  'font-family',
  'font-size',
  'font-weight',
  'opacity',
  'paint-order',
  'stroke',
  'stroke-linejoin',
  'stroke-opacity',
  'stroke-width',
  'visibility',
];
/// The height of a line of the legend.
const LINE = 20;

/// Saves a drawing. `legend` has `[text, number of the series]`: it stands beside the drawing on the page, and below it in the file.
export function savePicture(drawing, name, legend = []) {
  const blob = new Blob([pictureOf(drawing, legend)], { type: 'image/svg+xml' });
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  toast(`Saved ${name}, ${bytes(blob.size)}`, { kind: 'good' });
}

/// The text of the file.
function pictureOf(drawing, legend) {
  const copy = drawing.cloneNode(true);
  const [width, height] = [drawing.clientWidth, drawing.clientHeight];
  const [from, to] = [drawing, copy].map((root) => root.querySelectorAll('*'));
  from.forEach((element, at) => {
    const style = getComputedStyle(element);
    to[at].removeAttribute('style');
    to[at].removeAttribute('class');
    for (const property of LOOK) {
      const value = style.getPropertyValue(property);
      if (value && value !== 'normal') to[at].setAttribute(property, value.replaceAll('"', "'"));
    }
  });
  const whole = height + legend.length * LINE + (legend.length ? LINE / 2 : 0);
  const own = getComputedStyle(drawing);
  const ground = element('rect', { width, height: whole, fill: colour('--surface') });
  const keys = legend.flatMap(([text, at], line) => {
    const y = height + line * LINE;
    const family = own.fontFamily.replaceAll('"', "'");
    const said = element('text', { x: 36, y: y + 10, fill: own.color, 'font-family': family, 'font-size': 12 });
    said.textContent = text;
    const fill = colour(`--series-${at + 1}`);
    return [element('rect', { x: 18, y, width: 12, height: 12, rx: 3, fill }), said];
  });
  const title = element('title', {});
  title.textContent = drawing.getAttribute('aria-label') ?? '';
  for (const { name } of [...copy.attributes]) copy.removeAttribute(name);
  const frame = { xmlns: NAMESPACE, width, height: whole, viewBox: `0 0 ${width} ${whole}` };
  for (const [name, value] of Object.entries(frame)) copy.setAttribute(name, value);
  copy.prepend(title, ground);
  copy.append(...keys);
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

function element(name, attributes) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
