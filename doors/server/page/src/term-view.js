// How a term looks: IRIs short with a menu of what can be done, numbers and dates shaped, languages and datatypes quiet.

import { h, toast } from './dom.js';
import { grouped } from './format.js';
import { openMenu } from './menu.js';
import { XSD, dateParts, isWeb, kindOf, lastPieces, termText } from './terms.js';

/// A term as an element. `short` writes IRIs with prefixes, `onDescribe(iri)` asks for a description.
export function termElement(term, { short, onDescribe }) {
  const kind = kindOf(term);
  if (kind === 'none')
    return h('span', { class: 'term none', title: 'unbound' }, h('span', { class: 'sr-only' }, 'unbound'));
  if (kind === 'iri') return iriElement(term.value, { short, onDescribe });
  if (kind === 'blank') return h('span', { class: 'term blank' }, `_:${term.value}`);
  if (kind === 'number')
    return h('span', { class: 'term number', title: datatypeName(term, short) }, grouped(term.value));
  if (kind === 'date') {
    const { day, time } = dateParts(term);
    return h(
      'span',
      { class: 'term date', title: `${term.value} ${datatypeName(term, short)}` },
      day,
      time && h('span', { class: 'quiet' }, ` ${time}`),
    );
  }
  const language = term['xml:lang'];
  const type = term.datatype && term.datatype !== `${XSD}string` ? datatypeName(term, short) : null;
  return h(
    'span',
    { class: 'term text', lang: language || null },
    term.value,
    language && h('span', { class: 'tag' }, `@${language}`),
    type && h('span', { class: 'tag' }, type),
  );
}

function datatypeName(term, short) {
  if (term.datatype.startsWith(XSD)) return `xsd:${term.datatype.slice(XSD.length)}`;
  return short(term.datatype) ?? `<${term.datatype}>`;
}

/// An IRI. It is a real link, so that the browser's own ways to open it work; a plain click opens the menu instead.
export function iriElement(iri, { short, onDescribe }) {
  const name = short(iri);
  const [prefix, local] = name
    ? [name.slice(0, name.indexOf(':') + 1), name.slice(name.indexOf(':') + 1)]
    : ['', `<${iri}>`];
  const content = [prefix && h('span', { class: 'prefix' }, prefix), local];
  const click = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    iriMenu(event.currentTarget, iri, onDescribe);
  };
  const shared = {
    class: `term iri${name ? '' : ' long'}`,
    title: iri,
    tabindex: '-1',
    'aria-haspopup': 'menu',
    onClick: click,
  };
  if (!isWeb(iri)) return h('button', { ...shared, type: 'button' }, content);
  return h('a', { ...shared, href: iri, target: '_blank', rel: 'noreferrer noopener' }, content);
}

function iriMenu(anchor, iri, onDescribe) {
  const items = [
    { label: 'Describe', detail: 'all that is said of it', action: () => onDescribe(iri) },
    isWeb(iri) && { label: 'Open in a new tab', detail: '↗', href: iri },
    { label: 'Copy the IRI', action: () => copy(iri, 'IRI copied') },
  ];
  openMenu(anchor, items.filter(Boolean), { label: iri });
}

/// A term as one short line, for labels and tips.
export function termLabel(term, short, limit = 60) {
  if (!term) return '';
  const text =
    term.type === 'uri'
      ? (short(term.value) ?? termText(term))
      : term.type === 'bnode'
        ? `_:${term.value}`
        : term.value;
  const line = text.replace(/\s+/g, ' ');
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

/// A term as the name of a thing in a picture. An IRI without a prefix is named by its last part, or by the last two where the last one
/// is a number: names that begin alike would look the same when they are cut.
export function nameLabel(term, short, limit = 30) {
  const name = term?.type === 'uri' && !short(term.value) ? lastPieces(term.value) : termLabel(term, short);
  return name.length > limit ? `${name.slice(0, limit - 1)}…` : name;
}

/// Copies a text. Browsers offer their clipboard to pages with TLS or on the same machine only; elsewhere an old way is left.
export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h('textarea', { class: 'sr-only', 'aria-hidden': 'true' });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  toast(done);
}
