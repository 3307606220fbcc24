// Small helpers that build elements. Data only ever becomes text nodes and attributes, never markup.

const SVG = 'http://www.w3.org/2000/svg';

/// An element with properties and children. `on…` properties are listeners, `style` is an object of CSS properties, `false`, `null`
/// and `undefined` leave an attribute out.
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/// The same for an element of SVG.
export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === 'style') for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/// The element of the page with this id.
export function byId(id) {
  return document.getElementById(id);
}

/// Replaces all children.
export function replace(element, ...children) {
  element.textContent = '';
  append(element, children);
}

/// Tells a screen reader what happened.
export function announce(text) {
  byId('announcer').textContent = text;
}

/// A short message at the lower edge that leaves by itself. Returns its element, whose text may be changed and which may be removed.
export function toast(text, { lasts = 3500, kind = 'plain' } = {}) {
  const element = h('div', { class: `toast ${kind}`, role: 'status' }, text);
  byId('toasts').append(element);
  if (lasts) setTimeout(() => element.remove(), lasts);
  return element;
}

/// Draws an icon of the page's set: lines on a grid of 16 by 16.
export function icon(name) {
  const paths = {
    run: 'M4.5 3v10l8-5z',
    stop: 'M4 4h8v8H4z',
    tree: 'M3 3h4v3H3zM9 10h4v3H9zM5 6v5.5h4',
    share: 'M6.5 9.5l3-3M7 5l1.8-1.8a2.6 2.6 0 0 1 3.9 3.9L11 9M9 11l-1.8 1.8a2.6 2.6 0 0 1-3.9-3.9L5 7',
    history: 'M2.5 8a5.5 5.5 0 1 0 1.7-4M2.5 2.5v2.2h2.2M8 5v3.2l2.2 1.4',
    upload: 'M8 10V2.8M4.8 5.8L8 2.6l3.2 3.2M3 13.2h10',
    data: 'M3 4.2c0-2.4 10-2.4 10 0v7.6c0 2.4-10 2.4-10 0zM3 4.2c0 2.4 10 2.4 10 0M3 8c0 2.4 10 2.4 10 0',
    download: 'M8 2.5v7.5M4.8 7l3.2 3.2L11.2 7M3 13.2h10',
    book: 'M3 3.2c2-.6 3.6-.4 5 .7 1.4-1.1 3-1.3 5-.7v9c-2-.6-3.6-.4-5 .7-1.4-1.1-3-1.3-5-.7zM8 4v9',
    format: 'M3 4h10M5.5 7h7.5M5.5 10h7.5M3 13h10',
    sliders: 'M2.5 5h6.5M12 5h1.5M2.5 11h1.5M7 11h6.5M10.5 3.5v3M5.5 9.5v3',
    sun: 'M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6M8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.8.8M11.8 11.8l.8.8M3.4 12.6l.8-.8M11.8 4.2l.8-.8',
    moon: 'M13 9.6A5.5 5.5 0 0 1 6.4 3 5.5 5.5 0 1 0 13 9.6z',
    close: 'M4 4l8 8M12 4l-8 8',
    down: 'M4.5 6.5L8 10l3.5-3.5',
    left: 'M9.5 4L5.5 8l4 4',
    right: 'M6.5 4l4 4-4 4',
    first: 'M11.5 4l-4 4 4 4M4.5 4v8',
    last: 'M4.5 4l4 4-4 4M11.5 4v8',
    plus: 'M8 3.5v9M3.5 8h9',
    minus: 'M3.5 8h9',
    fit: 'M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3',
    bin: 'M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5',
    key: 'M5.5 10.5a2.7 2.7 0 1 0 0-.01M7.5 8.5l5.5-5.5M11 5l1.7 1.7',
    warning: 'M8 2.5l6 11H2zM8 6.5v3.2M8 11.6v.2',
  };
  return svg(
    'svg',
    { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true', focusable: 'false' },
    svg('path', { d: paths[name] }),
  );
}

/// A function that runs `action` once the calls have stopped for so many milliseconds.
export function debounce(milliseconds, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}

/// A function that runs `action` at the next frame, once for all calls before it.
export function eachFrame(action) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      action();
    });
  };
}

/// What a CSS variable means now as a colour that a canvas takes: `light-dark()` is resolved.
export function colour(name) {
  const probe = byId('colour-probe');
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/// The tabs of a `role=tablist`: arrow keys move, and only the chosen tab is in the order of the Tab key.
export function tablist(element, choose) {
  const tabs = () => [...element.querySelectorAll('[role=tab]')].filter((tab) => !tab.hidden && !tab.disabled);
  const select = (tab, focus) => {
    for (const other of element.querySelectorAll('[role=tab]')) {
      other.setAttribute('aria-selected', String(other === tab));
      other.tabIndex = other === tab ? 0 : -1;
    }
    if (focus) tab.focus();
    choose(tab.dataset.view);
  };
  element.addEventListener('click', (event) => {
    const tab = event.target.closest('[role=tab]');
    if (tab) select(tab, false);
  });
  element.addEventListener('keydown', (event) => {
    const all = tabs();
    const here = all.indexOf(event.target.closest('[role=tab]'));
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || here < 0) return;
    event.preventDefault();
    select(all[(to + all.length) % all.length], true);
  });
  return { select: (view) => select(element.querySelector(`[data-view="${view}"]`), false) };
}
