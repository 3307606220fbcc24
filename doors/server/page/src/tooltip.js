// The one tip that follows the pointer over charts, graphs, the time line and the machine. It repeats what other places also say, so it
// is hidden from screen readers.

import { byId, replace } from './dom.js';

/// Shows lines of text beside a point of the window. The first line is the title.
export function showTip(x, y, lines) {
  const tip = byId('tip');
  replace(
    tip,
    lines.filter(Boolean).map((line, at) => {
      const row = document.createElement('div');
      row.className = at ? '' : 'tip-title';
      row.textContent = line;
      return row;
    }),
  );
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(8, x + 14 + width + 8 > innerWidth ? x - width - 14 : x + 14)}px`;
  tip.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - height - 8))}px`;
}

export function hideTip() {
  byId('tip').hidden = true;
}
