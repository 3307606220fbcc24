// A menu that opens at an element, and the page's dialogs.

import { h } from './dom.js';

let open = null;

/// Opens a menu below `anchor`. Items are `{label, detail?, action?, href?, mark?}` or `{heading}`; arrow keys move, Escape closes, and
/// the focus goes back to the anchor.
export function openMenu(anchor, items, { label }) {
  if (open?.anchor === anchor) return closeMenu();
  closeMenu();
  const menu = h('div', { class: 'menu', role: 'menu', 'aria-label': label, popover: 'auto' });
  for (const item of items)
    menu.append(item.heading ? h('div', { class: 'menu-heading', role: 'presentation' }, item.heading) : entry(item));
  menu.addEventListener('keydown', (event) => {
    const all = [...menu.querySelectorAll('[role^=menuitem]')];
    const here = all.indexOf(document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === 'Tab') closeMenu();
    if (to === undefined) return;
    event.preventDefault();
    all[(to + all.length) % all.length].focus();
  });
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    const inside = menu.contains(document.activeElement) || document.activeElement === document.body;
    menu.remove();
    anchor.setAttribute('aria-expanded', 'false');
    if (inside) anchor.focus({ preventScroll: true });
    if (open?.menu === menu) open = null;
  });
  document.body.append(menu);
  menu.showPopover();
  place(menu, anchor);
  anchor.setAttribute('aria-expanded', 'true');
  open = { menu, anchor };
  menu.querySelector('[role^=menuitem]')?.focus();
}

export function closeMenu() {
  open?.menu.hidePopover();
}

function entry({ label, detail, action, href, mark }) {
  const role = mark === undefined ? 'menuitem' : 'menuitemradio';
  const content = [h('span', { class: 'menu-label' }, label), detail && h('span', { class: 'menu-detail' }, detail)];
  const properties = {
    class: 'menu-item',
    role,
    tabindex: '-1',
    'aria-checked': mark === undefined ? null : String(mark),
  };
  if (href)
    return h('a', { ...properties, href, target: '_blank', rel: 'noreferrer noopener', onClick: closeMenu }, content);
  const click = () => {
    closeMenu();
    action();
  };
  return h('button', { ...properties, type: 'button', onClick: click }, content);
}

function place(menu, anchor) {
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const left = Math.min(
    Math.max(8, at.right - width > 8 && at.left > innerWidth / 2 ? at.right - width : at.left),
    innerWidth - width - 8,
  );
  const below = at.bottom + 4 + height <= innerHeight || at.top < height + 8;
  menu.style.left = `${Math.max(8, left)}px`;
  menu.style.top = `${below ? at.bottom + 4 : at.top - height - 4}px`;
  menu.style.maxHeight = `${below ? innerHeight - at.bottom - 12 : at.top - 12}px`;
}

/// Asks for a token: the text, or null when the dialog was left without one.
export function askToken(why) {
  const field = h('input', { id: 'token-field', type: 'password', autocomplete: 'off', name: 'token' });
  const dialog = h(
    'dialog',
    { class: 'dialog', 'aria-labelledby': 'token-title' },
    h(
      'form',
      { method: 'dialog' },
      h('h2', { id: 'token-title' }, 'Token'),
      h('p', {}, why),
      h('label', { for: 'token-field' }, 'Token of the server'),
      field,
      h('p', { class: 'quiet' }, 'It is kept until this tab is closed, and sent to this server only.'),
      h(
        'div',
        { class: 'dialog-buttons' },
        h('button', { type: 'submit', value: 'cancel', class: 'button', formnovalidate: true }, 'Cancel'),
        h('button', { type: 'submit', value: 'ok', class: 'button primary' }, 'Use token'),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  // The Enter key means the token, not the first button.
  field.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    dialog.close('ok');
  });
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'ok' ? field.value.trim() || null : null);
    });
  });
}
