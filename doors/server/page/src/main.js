// The page: starts its parts and connects them.

import * as api from './api.js';
import { announce, byId, debounce, h, icon, replace, toast } from './dom.js';
import { DataPanel } from './data-panel.js';
import { Editor, placeOf, withoutPlace } from './editor.js';
import { examples, identifier } from './examples.js';
import { count, plural } from './format.js';
import { History, load, save } from './history.js';
import { LANGUAGES } from './languages.js';
import { askToken, openMenu } from './menu.js';
import { TriplesParser } from './ntriples.js';
import { prologue } from './prologue.js';
import { Requests } from './requests.js';
import { Results } from './results.js';
import { Run, guessForm } from './run.js';
import { decodeShare, encodeShare } from './share.js';
import { asCurl, asPython } from './snippets.js';
import { copy } from './term-view.js';
import { shortener } from './terms.js';
import { startTheme } from './theme.js';
import { Machine } from './topology.js';
import { askUpload, upload } from './upload.js';

const DRAFT = 'vicus.draft';
const DRAFTS = 'vicus.drafts';
const TABS = 'vicus.tabs';
const MAX_TABS = 20;
/// A node that expands brings so many triples.
const EXPANDED = 40;
const OPTIONS = 'vicus.options';
const ROW_LIMITS = [1000, 10_000, 100_000];
const TIME_LIMITS = [null, 10, 60, 600];

class Page {
  constructor(info) {
    this.info = info;
    this.options = { limit: 10_000, timeout: null, trace: true, ...load(OPTIONS, {}) };
    this.short = shortener(info.prefixes);
    const shared = decodeShare(location.hash);
    const draft = load(DRAFT, null);
    const first = examples(info)[0];
    const start =
      shared.query !== null ? { text: shared.query, language: shared.language ?? 'sparql' } : (draft ?? first);
    if (!info.languages.includes(start.language)) start.language = info.languages[0];
    /// The text of each language, so that each has its own.
    this.drafts = load(DRAFTS, {});
    this.keepDraft = debounce(400, () => this.#keep());
    // Queries stay open over visits, each in a tab of its own; a link opens another one.
    this.tabs = load(TABS, null)?.tabs?.filter(({ text, language }) => typeof text === 'string' && info.languages.includes(language)) ?? [];
    const chosen = load(TABS, null)?.at ?? 0;
    if (shared.query !== null || this.tabs.length === 0) this.tabs.push({ text: start.text, language: start.language });
    else Object.assign(start, { ...(this.tabs[chosen] ?? this.tabs[0]), label: null });
    this.tabs = this.tabs.slice(-MAX_TABS);
    this.tab = shared.query !== null ? this.tabs.at(-1) : (this.tabs[chosen] ?? this.tabs[0]);
    this.results = new Results({
      short: (iri) => this.short(iri),
      onDescribe: (iri) => this.describe(iri),
      onGoTo: (place) => this.editor.goTo(place),
      onExpand: (iri) => this.#around(iri),
      welcome: () => this.#welcome(),
    });
    this.editor = new Editor(byId('editor'), {
      ...start,
      prefixes: () => info.prefixes,
      onRun: () => this.execute(),
      onChange: (text) => {
        this.keepDraft();
        this.#fitEditor(text);
        this.#compare();
      },
      onCheck: (answer) => this.#showCheck(answer),
      onCursor: ({ line, column }) => {
        byId('cursor').textContent = `Line ${line}, column ${column}`;
      },
    });
    this.#fitEditor(start.text);
    this.history = new History(byId('history'), {
      onChoose: ({ text, language }) => {
        this.editor.setText(text, language);
        this.#showLanguage();
        this.editor.focus();
      },
      onClose: () => this.toggleHistory(false),
    });
    this.data = new DataPanel(byId('data-panel'), {
      onInsert: (entry) => this.#insert(entry),
      onClose: () => this.toggleData(false),
      onUpload: info.update !== 'off' && !info.dataset.readOnly && (() => this.upload()),
      short: (iri) => this.short(iri),
    });
    this.views = {
      query: null,
      machine: new Machine(byId('view-machine'), info),
      requests: new Requests(byId('view-requests'), { onExplain: (request) => this.explainOther(request) }),
    };
    this.#header();
    this.#toolbar();
    this.#splitter();
    this.#keys();
    this.#showLanguage();
    this.history.render();
    this.#showTabs();
    addEventListener('hashchange', () => this.#fromLink());
    addEventListener('pagehide', () => this.run?.aborter.abort());
    // A page in the background asks for nothing.
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.views[this.view]?.close();
      else this.views[this.view]?.open();
    });
    if (shared.view) {
      if (shared.view in this.views) this.show(shared.view);
      else this.results.wanted = shared.view;
    }
    this.editor.check();
    if (this.view === undefined) this.show('query');
    this.#look();
  }

  /// Asks what the data has: examples and the panel beside the editor follow it.
  async #look() {
    try {
      this.contents = await api.contents();
    } catch {
      // Without it there is no panel, and examples are those that hold for any data.
      return;
    }
    this.results.welcomeAgain();
    this.data.render(this.contents);
  }

  // ---- tabs ----

  get run() {
    return this.tab.run ?? null;
  }

  set run(run) {
    this.tab.run = run;
  }

  #showTabs() {
    const name = ({ text, language }) => {
      const plain = text
        .replace(/^\s*(PREFIX|BASE)[^\n]*\n?/gim, '')
        .replace(/\s+/g, ' ')
        .trim();
      const empty = { sparql: 'New query', sql: 'New statement', network: 'New network' };
      return plain ? plain.slice(0, 40) : empty[language];
    };
    const all = this.tabs.map((tab) => {
      const chosen = tab === this.tab;
      const close = (event) => {
        event.stopPropagation();
        this.closeTab(tab);
      };
      return h(
        'button',
        {
          type: 'button',
          role: 'tab',
          'aria-selected': String(chosen),
          'aria-controls': 'editor-card',
          tabindex: chosen ? '0' : '-1',
          title: `${name(tab)}${this.tabs.length > 1 ? ' (Delete closes it)' : ''}`,
          onClick: () => this.openTab(tab),
          onKeydown: (event) => {
            const at = this.tabs.indexOf(tab);
            const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
            if (to !== undefined) this.openTab(this.tabs[(to + this.tabs.length) % this.tabs.length]);
            else if (event.key === 'Delete') this.closeTab(tab);
            else return;
            event.preventDefault();
          },
        },
        h('span', { class: 'ellipsis' }, name(tab)),
        this.tabs.length > 1 && h('span', { class: 'close', 'aria-hidden': 'true', onClick: close }, icon('close')),
      );
    });
    const focused = byId('query-tabs').contains(document.activeElement);
    replace(byId('query-tabs'), all);
    if (focused) byId('query-tabs').querySelector('[aria-selected=true]').focus();
    save(TABS, { tabs: this.tabs.map(({ text, language }) => ({ text, language })), at: this.tabs.indexOf(this.tab) });
  }

  openTab(tab) {
    if (tab === this.tab) return;
    this.#keep();
    this.tab = tab;
    this.editor.setText(tab.text, tab.language);
    this.#showLanguage();
    this.results.show(this.run);
    this.#running(Boolean(this.run && !this.run.isOver));
    this.#compare();
    this.#showTabs();
  }

  newTab(text = '', language = this.editor.language) {
    const tab = { text, language };
    this.tabs.push(tab);
    if (this.tabs.length > MAX_TABS) this.closeTab(this.tabs[0]);
    this.openTab(tab);
    this.editor.focus();
  }

  closeTab(tab) {
    if (this.tabs.length < 2) return;
    tab.run?.stop();
    const at = this.tabs.indexOf(tab);
    if (tab === this.tab) this.openTab(this.tabs[at + 1] ?? this.tabs[at - 1]);
    this.tabs.splice(at, 1);
    this.#showTabs();
  }

  // ---- data ----

  toggleData(open = byId('data-panel').hidden) {
    if (open) this.toggleHistory(false);
    byId('data-panel').hidden = !open;
    byId('toggle-data').setAttribute('aria-expanded', String(open));
    (open ? this.data.search : byId('toggle-data')).focus();
  }

  /// Puts a name of the panel at the cursor, in the language that has it.
  #insert({ iri, name, table }) {
    if (table) {
      if (this.editor.language !== 'sql') this.setLanguage('sql');
      return this.editor.insert(identifier(name));
    }
    if (this.editor.language === 'sql') return this.editor.insert(identifier(iri));
    const written = this.short(iri);
    const prefix = written && this.info.prefixes.find((known) => known.name === written.slice(0, written.indexOf(':')));
    return this.editor.insert(written ?? `<${iri}>`, prefix ?? null);
  }

  /// Some triples from and to a node.
  async #around(iri) {
    const text = `CONSTRUCT { <${iri}> ?p ?o . ?s ?q <${iri}> } WHERE { { <${iri}> ?p ?o } UNION { ?s ?q <${iri}> } } LIMIT ${EXPANDED}`;
    const response = await api.query({ text, language: 'sparql', accept: 'application/n-triples' });
    const triples = [];
    const parser = new TriplesParser({ onRow: (row) => triples.push(row) });
    await api.readText(response, (piece) => parser.write(piece));
    parser.end();
    return triples;
  }

  async upload() {
    const chosen = await askUpload(this.contents?.graphs.map(({ iri }) => iri) ?? []);
    if (!chosen || !(await this.#mayUpdate())) return;
    if (!(await upload(chosen))) return;
    this.#refreshInfo();
    this.#look();
  }

  // ---- the frame ----

  #header() {
    const { dataset, version } = this.info;
    replace(
      byId('dataset'),
      h('strong', {}, dataset.name.split('/').filter(Boolean).at(-1) ?? dataset.name),
      h('span', {}, `${plural(dataset.quads, 'quad')}`),
      dataset.graphs > 0 && h('span', {}, plural(dataset.graphs, 'graph')),
      dataset.readOnly && h('span', { class: 'badge' }, 'read only'),
    );
    byId('dataset').title = `${dataset.name}, version ${dataset.version}, Vicus ${version}`;
  }

  show(view) {
    if (view === this.view) return;
    this.views[this.view]?.close();
    this.view = view;
    for (const name of Object.keys(this.views)) byId(`view-${name}`).hidden = name !== view;
    for (const button of document.querySelectorAll('[data-open]')) {
      if (button.dataset.open === view) button.setAttribute('aria-current', 'page');
      else button.removeAttribute('aria-current');
    }
    this.views[view]?.open();
    const hash = view === 'query' ? '' : encodeShare({ view });
    if (view !== 'query' || !decodeShare(location.hash).query)
      history.replaceState(null, '', hash || location.pathname + location.search);
  }

  #toolbar() {
    for (const button of document.querySelectorAll('[data-open]'))
      button.addEventListener('click', () => this.show(button.dataset.open));
    document.querySelector('.skip').addEventListener('click', (event) => {
      event.preventDefault();
      this.show('query');
      this.editor.focus();
    });
    byId('run').addEventListener('click', () => this.execute());
    byId('stop').addEventListener('click', () => this.run?.stop());
    byId('explain').addEventListener('click', () => this.execute({ planOnly: true }));
    byId('format').addEventListener('click', () => {
      this.editor.format();
      this.editor.focus();
    });
    byId('share').addEventListener('click', (event) => {
      const query = () => ({
        text: this.editor.text,
        language: this.editor.language,
        base: document.baseURI.replace(/[?#].*$/, ''),
        token: this.info.query === 'token',
      });
      const items = [
        { label: 'Copy a link', action: () => this.share() },
        { label: 'Copy as curl', action: () => copy(asCurl(query()), 'Copied for a shell') },
        { label: 'Copy as Python', action: () => copy(asPython(query()), 'Copied for Python') },
      ];
      openMenu(event.currentTarget, items, { label: 'Share' });
    });
    byId('new-tab').addEventListener('click', () => this.newTab());
    byId('toggle-data').addEventListener('click', () => this.toggleData());
    byId('toggle-history').addEventListener('click', () => this.toggleHistory());
    byId('examples').addEventListener('click', (event) => {
      const items = examples(this.info, this.contents).map(({ label, text, language }) => ({
        label,
        action: () => this.take(text, language),
      }));
      openMenu(event.currentTarget, items, { label: 'Examples' });
    });
    byId('options').addEventListener('click', (event) =>
      openMenu(event.currentTarget, this.#optionItems(), { label: 'Options' }),
    );
    for (const button of document.querySelectorAll('[data-icon]')) button.prepend(icon(button.dataset.icon));
    const languages = this.info.languages.filter((language) => LANGUAGES[language]);
    byId('languages').hidden = languages.length < 2;
    replace(
      byId('languages'),
      languages.map((language) =>
        h(
          'button',
          {
            type: 'button',
            'data-language': language,
            onClick: () => this.setLanguage(language),
          },
          LANGUAGES[language].title,
        ),
      ),
    );
  }

  #optionItems() {
    const choose = (name, value) => () => {
      this.options[name] = value;
      save(OPTIONS, this.options);
    };
    const own = this.info.limits.timeMs;
    const items = [
      { heading: 'Rows on this page' },
      ...ROW_LIMITS.map((limit) => ({
        label: count(limit),
        mark: this.options.limit === limit,
        action: choose('limit', limit),
      })),
      { heading: 'Time limit' },
      ...TIME_LIMITS.map((limit) => ({
        label: limit ? `${limit} s` : `The server's${own ? ` (${own / 1000} s)` : ''}`,
        mark: this.options.timeout === limit,
        action: choose('timeout', limit),
      })),
      { heading: 'Time line' },
      { label: 'Record it', mark: this.options.trace, action: choose('trace', true) },
      { label: 'Do not record it', mark: !this.options.trace, action: choose('trace', false) },
    ];
    if (this.info.update === 'token' || this.info.query === 'token') {
      items.push(
        { heading: 'Token' },
        {
          label: api.token.get() ? 'Change it…' : 'Set one…',
          action: () => this.#askToken('A token allows more than reading without one.', null),
        },
      );
      if (api.token.get()) items.push({ label: 'Forget it', action: () => api.token.set(null) });
    }
    return items;
  }

  #showLanguage() {
    for (const button of byId('languages').children)
      button.setAttribute('aria-pressed', String(button.dataset.language === this.editor.language));
  }

  /// Changes the language: the text in the editor is kept for its own, and the other's text comes back.
  setLanguage(language) {
    if (language === this.editor.language) return;
    this.#keep();
    this.editor.setText(this.drafts[language] ?? this.#firstText(language), language);
    this.#showLanguage();
    this.#keep();
    this.#compare();
    this.editor.focus();
  }

  #firstText(language) {
    return examples(this.info, this.contents).find((example) => example.language === language)?.text ?? '';
  }

  /// Keeps the text of the editor for the next visit.
  #keep() {
    const { text, language } = this.editor;
    this.drafts[language] = text;
    Object.assign(this.tab, { text, language });
    this.#showTabs();
    save(DRAFT, { text, language });
    save(DRAFTS, this.drafts);
  }

  /// Marks the result if it is of another text than the one in the editor.
  #compare() {
    const { run } = this;
    this.results?.setStale(
      Boolean(run) && (run.text.trim() !== this.editor.text.trim() || run.language !== this.editor.language),
    );
  }

  toggleHistory(open = byId('history').hidden) {
    if (open && !byId('data-panel').hidden) this.toggleData(false);
    if (!open && byId('history').hidden) return;
    byId('history').hidden = !open;
    byId('toggle-history').setAttribute('aria-expanded', String(open));
    if (open) {
      this.history.render();
      this.history.search.focus();
    } else {
      byId('toggle-history').focus();
    }
  }

  /// The bar between the editor and the results: dragged, or moved with the arrow keys.
  #splitter() {
    const bar = byId('splitter');
    const view = byId('view-query');
    const set = (height) => {
      const bounded = Math.round(Math.min(Math.max(110, height), innerHeight - 220));
      view.style.setProperty('--editor-height', `${bounded}px`);
      bar.setAttribute('aria-valuenow', String(bounded));
      save('vicus.editor-height', bounded);
    };
    const height = () => byId('editor-card').offsetHeight;
    const stored = load('vicus.editor-height', null);
    if (stored) set(stored);
    bar.addEventListener('keydown', (event) => {
      const step = { ArrowUp: -24, ArrowDown: 24 }[event.key];
      if (!step) return;
      event.preventDefault();
      set(height() + step);
    });
    bar.addEventListener('pointerdown', (event) => {
      event.preventDefault();
      const [from, begin] = [height(), event.clientY];
      const move = (event) => set(from + event.clientY - begin);
      addEventListener('pointermove', move);
      addEventListener('pointerup', () => removeEventListener('pointermove', move), { once: true });
    });
  }

  /// The editor is as high as its text within bounds, until the bar below it is moved.
  #fitEditor(text) {
    byId('view-query').style.setProperty('--lines', String(text.split('\n').length));
  }

  #keys() {
    addEventListener('keydown', (event) => {
      const isMod = event.ctrlKey || event.metaKey;
      if (isMod && event.key === 'Enter' && !event.defaultPrevented && this.view === 'query') this.execute();
      else if (event.key === 'Escape' && event.target.closest?.('#history')) this.toggleHistory(false);
      else if (event.key === 'Escape' && event.target.closest?.('#data-panel')) this.toggleData(false);
      else if (event.altKey && !isMod && '123'.includes(event.key))
        this.show(['query', 'machine', 'requests'][Number(event.key) - 1]);
      else return;
      event.preventDefault();
    });
  }

  #welcome() {
    const items = examples(this.info, this.contents)
      .slice(0, 6)
      .map(({ label, text, language }) =>
        h('button', { type: 'button', class: 'button', onClick: () => this.take(text, language, true) }, label),
      );
    const key = (...names) => names.map((name) => h('kbd', {}, name));
    return h(
      'div',
      { class: 'welcome' },
      h('h2', {}, 'Ask something'),
      h(
        'p',
        { class: 'quiet' },
        `${plural(this.info.dataset.quads, 'quad')} are ready. Write a query above, or begin with one of these.`,
      ),
      h('div', { class: 'welcome-examples' }, items),
      h(
        'p',
        { class: 'welcome-keys quiet' },
        h('span', {}, key('Ctrl', 'Enter'), ' run'),
        h('span', {}, key('Ctrl', 'Space'), ' complete'),
        h('span', {}, key('Shift', 'Alt', 'F'), ' indent'),
        h('span', {}, key('F8'), ' next error'),
        h('span', {}, key('Esc', 'Tab'), ' leave the editor'),
        h('span', {}, key('Alt', '1–3'), ' views'),
      ),
    );
  }

  #showCheck(answer) {
    const place = byId('check');
    if (!answer) replace(place);
    else if (answer.error)
      replace(
        place,
        answer.error.line > 0
          ? h('span', { class: 'check-bad' }, icon('warning'), `Line ${answer.error.line}, column ${answer.error.column}`)
          : h('span', { class: 'check-bad' }, icon('warning'), answer.error.message.split('\n')[0]),
      );
    else
      replace(
        place,
        h('span', { class: 'form' }, answer.form?.toUpperCase() ?? ''),
        h(
          'span',
          { class: 'quiet ellipsis' },
          (answer.variables ?? []).map((name) => (this.editor.language === 'sql' ? name : `?${name}`)).join('  '),
        ),
      );
  }

  // ---- running ----

  /// Puts a text into the editor.
  take(text, language = 'sparql', runs = false) {
    if (language !== this.editor.language) this.#keep();
    this.editor.setText(text, language);
    this.#showLanguage();
    this.editor.focus();
    if (runs) this.execute();
  }

  /// In a tab of its own: the query that one writes stays.
  describe(iri) {
    this.show('query');
    this.newTab(`DESCRIBE <${iri}>\n`, 'sparql');
    this.execute();
  }

  async explainOther(request) {
    this.show('query');
    try {
      await this.results.showPlanOf(request.id);
    } catch (error) {
      toast(error.message, { kind: 'bad' });
    }
  }

  /// Asks for a token until one has the right that is needed ("read", "write", or null for either), or the dialog is left.
  #askToken(why, right) {
    return tokenFor(why, (rights) => (right ? rights[right] : rights.read && rights.known));
  }

  async execute({ planOnly = false, again = false } = {}) {
    this.run?.stop();
    this.editor.declareMissing();
    const { text, language } = this.editor;
    if (!text.trim()) return this.editor.focus();
    // What an update needs is asked for before it counts as running.
    let permitted = null;
    if (!planOnly && guessForm(text, language) === 'update') {
      const answer = await this.editor.check();
      if (answer?.form === 'update') permitted = await this.#mayUpdate();
    }
    const run = new Run({ text, language, ...this.options });
    run.planOnly = planOnly;
    this.run = run;
    this.#shorten(text);
    this.results.follow(run);
    this.#compare();
    this.#running(true);
    announce('Running');
    run.addEventListener('end', () => (run === this.run ? this.#ended(run, { planOnly, again }) : run.wasSent && this.history.add(run)));
    const answer = await this.editor.check();
    if (run.aborter.signal.aborted) run.refuse(Object.assign(new Error('stopped'), { name: 'AbortError' }));
    else if (answer?.error) {
      run.refuse(Object.assign(new Error(withoutPlace(answer.error.message)), { place: placeOf(answer.error) }));
    }
    else if (planOnly && answer?.form === 'update') run.refuse(new Error('An update has no plan to explain.'));
    else if (planOnly) run.explain();
    else if (answer?.form === 'update' && !(permitted ?? (await this.#mayUpdate()))) run.refuse(new Error(this.refusal));
    else {
      run.remarks = answer?.remarks ?? [];
      run.run(answer?.form ?? null);
    }
  }

  async #ended(run, { planOnly, again }) {
    this.#running(false);
    if (run.error?.place) this.editor.showError({ ...run.error, message: withoutPlace(run.error.message) });
    // Without a token, or with one that does not permit this, another one is asked for.
    const refused = run.error?.status === 401 || (run.error?.status === 403 && api.token.get() !== null);
    if (refused && !again) {
      const right = run.form === 'update' ? 'write' : 'read';
      if (await this.#askToken(run.error.message, right)) return this.execute({ planOnly, again: true });
    }
    // What was refused before it was sent is not worth remembering.
    if (!planOnly && run.wasSent) this.history.add(run);
    announce(outcome(run));
    if (run.form === 'update' && run.state === 'done') this.#refreshInfo();
  }

  async #mayUpdate() {
    const { update, dataset } = this.info;
    this.refusal = 'The update was not sent: it needs a token.';
    if (dataset.readOnly || update === 'off') {
      this.refusal = dataset.readOnly
        ? 'This data is read only: the server takes no updates.'
        : 'Updates are off at this server. It takes them when it is started with a token.';
      return false;
    }
    return (
      update === 'open' || Boolean(api.token.get()) || this.#askToken('This server takes updates with a token only.', 'write')
    );
  }

  /// The number of quads in the header, after an update.
  async #refreshInfo() {
    try {
      Object.assign(this.info, await api.info());
      this.#header();
    } catch {
      // The old numbers stay.
    }
  }

  #shorten(text) {
    const declared = [...prologue(text).prefixes].map(([name, iri]) => ({ name, iri })).filter(({ iri }) => iri);
    this.short = shortener([...declared, ...this.info.prefixes]);
  }

  #running(yes) {
    const [shown, gone] = yes ? ['stop', 'run'] : ['run', 'stop'];
    const hasFocus = document.activeElement === byId(gone);
    byId(shown).hidden = false;
    byId(gone).hidden = true;
    if (hasFocus) byId(shown).focus();
    document.title = yes ? '… Vicus' : 'Vicus';
  }

  // ---- links ----

  share() {
    const view = this.results.view;
    const hash = encodeShare({ query: this.editor.text, language: this.editor.language, view });
    history.replaceState(null, '', hash);
    copy(location.href, 'Link copied');
  }

  #fromLink() {
    const { query, language, view } = decodeShare(location.hash);
    if (view && view in this.views) return this.show(view);
    this.show('query');
    if (query !== null && query !== this.editor.text) {
      this.newTab(query, language ?? 'sparql');
    }
    this.#showLanguage();
    if (view) this.results.wanted = view;
  }
}

/// The end of a run in a few words.
function outcome(run) {
  if (run.error) return `Failed: ${run.error.message}`;
  if (run.state === 'cancelled') return 'Stopped';
  return run.form === 'update' || run.planOnly ? 'Done' : `Done: ${plural(run.received, 'row')}`;
}

/// Asks for a token and keeps it if `suits` the rights that the server gives with it; else the one before comes back, and it asks
/// again. Whether one was found.
async function tokenFor(why, suits) {
  const before = api.token.get();
  for (let text = why; ; text = 'The server does not take this token, or it does not permit this. Enter another one.') {
    const given = await askToken(text);
    if (!given) return false;
    api.token.set(given);
    try {
      const { rights } = await api.info();
      // An older server does not tell rights: its next answer does.
      if (!rights || suits(rights)) return true;
    } catch (error) {
      if (error.status !== 401 && error.status !== 403) throw error;
    }
    api.token.set(before);
  }
}

async function start() {
  startTheme();
  for (;;) {
    try {
      const info = await api.info();
      if (info.rights && !info.rights.read) throw new api.ServerError(401);
      byId('loading').remove();
      byId('app').hidden = false;
      return new Page(info);
    } catch (error) {
      if (error.status === 401) {
        api.token.set(null);
        if (await tokenFor('This server answers with a token only.', (rights) => rights.read)) continue;
        byId('loading').textContent = 'Without a token this server does not answer. Reload the page to try again.';
        return null;
      }
      byId('loading').textContent = `The server cannot be reached: ${error.message}`;
      throw error;
    }
  }
}

start();
