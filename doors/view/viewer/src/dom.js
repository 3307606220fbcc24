// Elements, and colours of the style sheet for the canvas.

/// An element: `h('a', { href: '#', onClick: f }, 'text', other)`.
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2).toLowerCase(), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/// Calls `draw` once before the next frame, however often it is asked.
export function eachFrame(draw) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
}

let probe;

/// The present value of a colour of the style sheet: it differs between light and dark.
export function colour(name) {
  probe ??= document.body.appendChild(h('i', { hidden: true }));
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
