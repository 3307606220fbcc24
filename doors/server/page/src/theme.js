// Light and dark: the system's choice until the button is pressed.

import { byId, icon, replace } from './dom.js';

const KEY = 'vicus.theme';

export function startTheme() {
  const button = byId('theme');
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  const apply = () => {
    const dark = chosen ? chosen === 'dark' : system.matches;
    if (chosen) document.documentElement.dataset.theme = chosen;
    const label = dark ? 'Light colours' : 'Dark colours';
    button.setAttribute('aria-label', label);
    button.title = label;
    replace(button, icon(dark ? 'sun' : 'moon'));
  };
  button.addEventListener('click', () => {
    const dark = chosen ? chosen === 'dark' : system.matches;
    chosen = dark ? 'light' : 'dark';
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // As above.
    }
    apply();
  });
  system.addEventListener('change', apply);
  apply();
}
