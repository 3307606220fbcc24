// The page in a real browser, from the first key to the dark picture: `node --test test/browser.js`.
//
//   VICUS_URL       a running server; without it the mock server is started
//   CHROMIUM        the browser; without it, Debian's `chromium` or `chromium-headless-shell`
//   SCREENSHOTS     a folder for pictures; without it none are taken
//
// Nothing here expects values of the mock: only a first query whose pattern matches more than 100 rows, as any store of some size has.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { mockServer, stored } from './mock-server.js';

const SELECT = 'SELECT * WHERE { ?s ?p ?o } LIMIT 1000';
let server;
let browser;
let context;
let page;
let base = process.env.VICUS_URL;
const isMock = !base;
const strangers = [];
const complaints = [];

before(async () => {
  if (isMock) {
    server = mockServer();
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    base = `http://127.0.0.1:${server.address().port}/`;
  }
  const executablePath =
    process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell'].find(existsSync);
  assert(executablePath, 'a Chromium is installed');
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: 'light',
    acceptDownloads: true,
  });
  page = await newPage(context);
  await page.goto(base);
  await page.waitForSelector('.cm-content');
});

after(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

async function newPage(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol.startsWith('http') && origin !== new URL(base).origin) strangers.push(request.url());
  });
  // A refused query, a missing time line, a stopped stream: they are answers, which the browser writes to the console all the same.
  page.on(
    'console',
    (message) =>
      message.type() === 'error' &&
      !/status of (400|401|404|499)|ERR_INCOMPLETE_CHUNKED/.test(message.text()) &&
      complaints.push(message.text()),
  );
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  return page;
}

async function picture(name, of = page) {
  if (!process.env.SCREENSHOTS) return;
  mkdirSync(process.env.SCREENSHOTS, { recursive: true });
  await of.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`) });
}

/// Replaces the editor's text as a user does.
async function type(text, { pasted = false } = {}) {
  await page.click('.cm-content');
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.press('Delete');
  if (pasted) await page.keyboard.insertText(text);
  else await page.keyboard.type(text);
}

const editorText = () =>
  page.$eval('.cm-content', (content) =>
    [...content.querySelectorAll('.cm-line')].map((line) => line.textContent).join('\n'),
  );
const isDone = () =>
  page.waitForFunction(
    () =>
      document.getElementById('results').getAttribute('aria-busy') === 'false' &&
      document.getElementById('stop').hidden,
  );

async function run(text) {
  await type(text, { pasted: true });
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForFunction(
    () => document.getElementById('result-summary').textContent !== '' || document.querySelector('.failure'),
  );
  await isDone();
}

const tab = (view) => page.click(`#tab-${view}`);

/// Whether a file is a picture that needs no style sheet, with a text in it.
async function isPicture(download, name, text) {
  assert.equal(download.suggestedFilename(), name);
  const file = readFileSync(await download.path(), 'utf8');
  const parsed = await page.evaluate((file) => {
    const root = new DOMParser().parseFromString(file, 'image/svg+xml').documentElement;
    const shapes = [...root.querySelectorAll('circle, path, rect, line')];
    return {
      name: root.localName,
      texts: [...root.querySelectorAll('text')].map((text) => text.textContent),
      coloured: shapes.every((shape) => /^(rgb|none|color|context)/.test(shape.getAttribute('fill'))),
      looks: file.includes('var(--') || file.includes('class='),
    };
  }, file);
  assert.equal(parsed.name, 'svg', file.slice(0, 200));
  assert(parsed.texts.includes(text), `${text} is not in ${parsed.texts}`);
  assert(parsed.coloured, 'shapes have their colours');
  assert(!parsed.looks, 'nothing of the page is asked for');
}

test('says what to do before the first query', async () => {
  await page.waitForSelector('.welcome-examples button');
  await picture('01-welcome');
});

test('a prefix is declared when its colon is typed', async (t) => {
  const known = await page.evaluate(async () =>
    (await (await fetch('api/info')).json()).prefixes.map(({ name }) => name).filter(Boolean),
  );
  if (!known.length) return t.skip('the server knows no prefixes');
  await type(`SELECT * WHERE { ?s ${known[0]}:`);
  await page.waitForFunction(
    (name) => document.querySelector('.cm-content').textContent.startsWith(`PREFIX ${name}: <`),
    known[0],
  );
  // One step back takes away the declaration and what was typed with it.
  await page.keyboard.press('Escape');
  await page.keyboard.press('ControlOrMeta+z');
  assert(!(await editorText()).includes('PREFIX'));
});

test('completes by keyboard', async () => {
  await type('SELECT * WHERE { ?s ');
  await page.keyboard.press('ControlOrMeta+Space');
  await page.waitForSelector('.cm-tooltip-autocomplete li');
  await page.keyboard.press('Escape');
  await page.keyboard.press('ControlOrMeta+Space');
  await page.waitForSelector('.cm-tooltip-autocomplete li[aria-selected]');
  await picture('02-completion');
  const before = await editorText();
  // The list ignores keys for a moment after it opens, so that it takes none that were meant for the text.
  await page.waitForTimeout(150);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForFunction(
    (before) => document.querySelector('.cm-content').textContent !== before.replaceAll('\n', ''),
    before,
  );
  assert.equal(await page.$('.cm-tooltip-autocomplete li'), null);
});

test('the Tab key leaves the editor after Escape', async () => {
  await page.click('.cm-content');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab');
  assert(!(await page.evaluate(() => document.activeElement.classList.contains('cm-content'))));
});

test('the link to the editor puts the cursor into it', async () => {
  await page.focus('.skip');
  await page.keyboard.press('Enter');
  assert(await page.evaluate(() => document.activeElement.classList.contains('cm-content')));
});

test('shows an error at its place', async () => {
  await type('SELECT * WHERE {\n?s ?p oops oops }');
  await page.waitForSelector('.error-line');
  await page.waitForSelector('.check-bad');
  await page.waitForSelector('.cm-lintRange-error, .cm-lintPoint-error');
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForSelector('.failure');
  await picture('03-error');
  // The message stands once, without its place.
  const message = await page.$eval('.error-line', (line) => line.textContent);
  assert.doesNotMatch(message, /^line \d/i);
  assert(!(await page.$eval('#results', (results) => results.textContent)).includes(message));
  await page.click('.failure button');
  assert(await page.evaluate(() => document.activeElement.classList.contains('cm-content')));
});

test('shows an error that only the run finds', async (t) => {
  if (!isMock) return t.skip('needs a server that fails on demand');
  await type('SELECT * WHERE { ?late ?p ?o }', { pasted: true });
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForSelector('.failure');
  await page.waitForSelector('.error-line');
  await isDone();
  // The check, which found nothing, does not take the mark away again.
  await page.waitForTimeout(700);
  assert(await page.$('.error-line'));
});

test('shows rows, sorts them and turns pages', async () => {
  await run(SELECT);
  await page.waitForSelector('.results tbody tr');
  await picture('04-table');
  const first = () => page.$eval('.results tbody tr', (row) => row.textContent);
  await page.click('.results thead th:nth-child(2) button');
  assert.equal(
    await page.$eval('.results thead th:nth-child(2)', (head) => head.getAttribute('aria-sort')),
    'ascending',
  );
  const up = await first();
  await page.keyboard.press('Enter');
  assert.equal(
    await page.$eval('.results thead th:nth-child(2)', (head) => head.getAttribute('aria-sort')),
    'descending',
  );
  assert.notEqual(await first(), up);
  await page.click('[aria-label="Next page"]');
  assert.match(await page.$eval('.pager-range', (range) => range.textContent), /^101–/);
  // Another result begins at its first row, however far the one before was scrolled.
  await page.$eval('.table-scroll', (place) => (place.scrollTop = place.scrollHeight));
  await page.waitForFunction(() => document.querySelector('.table-scroll').scrollTop > 0);
  await run('SELECT ?s ?o WHERE { ?s ?p ?o } LIMIT 900');
  await page.waitForFunction(() => document.querySelector('.table-scroll').scrollTop === 0);
  // A result is marked once the text is another one.
  assert.equal(await page.$('#results.stale'), null);
  await page.click('.cm-content');
  await page.keyboard.press('End');
  await page.keyboard.type(' # more');
  await page.waitForSelector('#results.stale');
  await run(SELECT);
  await page.waitForSelector('#results:not(.stale)');
  await picture('05-table-sorted');
  await page.keyboard.press('Tab');
  await page.focus('.results td[tabindex="0"]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TD');
});

test('shows the first rows while more come, and says when an answer breaks off', async (t) => {
  if (!isMock) return t.skip('needs a server that is slow on demand');
  await type('SELECT * WHERE { ?slow ?p ?o }', { pasted: true });
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForFunction(
    () =>
      document.querySelectorAll('.results tbody tr').length > 8 &&
      document.getElementById('results').getAttribute('aria-busy') === 'true',
  );
  await picture('05-streaming');
  await page.click('#stop');
  await isDone();
  await run('SELECT * WHERE { ?break ?p ?o }');
  await page.waitForSelector('.failure');
  await picture('05-broken');
});

test('offers to describe an IRI, and shows its triples as a graph', async () => {
  await page.click('.results .term.iri');
  await page.waitForSelector('.menu');
  await picture('06-iri-menu');
  const links = await page.$$eval('.results a.iri', (all) =>
    all.slice(0, 20).map(({ rel, target }) => `${rel} ${target}`),
  );
  assert(
    links.every((link) => link === 'noreferrer noopener _blank'),
    links.join(),
  );
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.cm-content').textContent.startsWith('DESCRIBE <'));
  await isDone();
  await run('CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o } LIMIT 80');
  await page.waitForSelector('.results tbody tr');
  await tab('graph');
  await page.waitForSelector('.graph .node');
  await page.waitForTimeout(150);
  await picture('07-graph');
  // Only an IRI can be asked for more; blank nodes come first in some data.
  const texts = await page.$$eval('#panel-graph .side .list-button', (all) => all.map((each) => each.textContent));
  const named = texts.findIndex((text) => !text.startsWith('_:'));
  await page.locator('#panel-graph .side .list-button').nth(named).click();
  await page.waitForSelector('#panel-graph .side .fact');
  await picture('08-graph-node');
  const nodes = await page.$$eval('.graph .node', (all) => all.length);
  await page.click('#panel-graph .side button:has-text("Expand")');
  await page.waitForFunction((nodes) => document.querySelectorAll('.graph .node').length >= nodes, nodes);
  // Each label can be read: none lies on another one.
  const labels = await page.$$eval('.graph .node text', (all) =>
    all.map((text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect();
      return { left, right, top: top + 2, bottom: bottom - 2, text: text.textContent };
    }),
  );
  const covered = labels.flatMap((a, at) =>
    labels
      .slice(at + 1)
      .filter((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
      .map((b) => `${a.text} / ${b.text}`),
  );
  if (isMock) assert.deepEqual(covered, []);
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('[aria-label="Save as SVG"]')]);
  await isPicture(download, 'graph.svg', labels[0].text);
  await page.focus('.graph');
  for (const key of ['+', '-', 'ArrowLeft', '0']) await page.keyboard.press(key);
  await tab('table');
});

test('a node of a graph expands by the triples that the data has about it', async () => {
  await run('CONSTRUCT { ?s a ?t } WHERE { ?s a ?t FILTER(isIRI(?s)) } LIMIT 1');
  await page.waitForSelector('.results tbody tr');
  await tab('graph');
  await page.waitForSelector('.graph .node');
  const nodes = () => page.$$eval('.graph .node', (all) => all.length);
  const before = await nodes();
  await page.locator('#panel-graph .side .list-button').first().click();
  await page.click('#panel-graph .side button:has-text("Expand")');
  await page.waitForFunction((before) => document.querySelectorAll('.graph .node').length > before, before);
  // The node stays chosen, with its triples beside the picture.
  assert((await page.$$('#panel-graph .side .fact')).length > 1);
  await tab('table');
});

test('counts all rows of an answer of which the page keeps the first', async (t) => {
  if (isMock) return t.skip('needs a server that counts');
  await run('SELECT ?s ?p ?o WHERE { ?s ?p ?o }');
  await page.waitForSelector('#result-summary .badge.action');
  const first = await page.$eval('#result-summary .badge.action', (badge) => badge.textContent);
  assert.match(first, /^first [\d\s]+ only$/);
  await page.click('#result-summary .badge.action');
  await page.waitForFunction(() => /^first [\d\s]+ of [\d\s]+$/.test(document.querySelector('#result-summary .badge').textContent));
  const counted = await page.$eval('#result-summary .badge', (badge) => badge.textContent);
  const total = await page.evaluate(async () => {
    const query = encodeURIComponent('SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }');
    return (await (await fetch(`/sparql?query=${query}`, { headers: { accept: 'text/csv' } })).text()).trim().split('\n').at(-1);
  });
  assert.equal(counted.split(' of ')[1].replaceAll(/\s/g, ''), total.trim());
});

test('answers ASK with yes or no', async () => {
  await run('ASK { ?s ?p ?o }');
  await page.waitForSelector('.verdict');
  await picture('09-ask');
});

test('says why an answer is empty, or a column', async (t) => {
  if (!isMock) return t.skip('needs the remarks of the mock server');
  const remarks = () => page.$$eval('.remarks li', (items) => items.map((item) => item.textContent));
  await run('SELECT ?nmae { ?s ?p ?name }');
  assert.deepEqual(await remarks(), ['nothing binds ?nmae; did you mean ?name?']);
  await run('SELECT ?s { ?s e:nothing ?o }');
  assert.deepEqual(await remarks(), ['the data has no predicate e:nothing']);
  await run('SELECT ?s { ?s ?p ?o }');
  assert.deepEqual(await remarks(), []);
});

test('draws a chart', async () => {
  await run('SELECT ?p (COUNT(*) AS ?n) (COUNT(DISTINCT ?s) AS ?subjects) WHERE { ?s ?p ?o } GROUP BY ?p');
  await tab('chart');
  await page.waitForSelector('.chart .mark, .chart .line');
  await picture('10-chart-bars');
  assert.match(await page.$eval('.chart', (chart) => chart.getAttribute('aria-label')), /Bars of|Points of|A line of/);
  // Two columns side by side, with their names.
  const bars = await page.$$eval('.chart rect.mark', (all) => all.length);
  await page.selectOption('#panel-chart [data-name=also]', { index: 1 });
  await page.waitForFunction((bars) => document.querySelectorAll('.chart rect.mark').length === 2 * bars, bars);
  assert.equal(await page.$$eval('#panel-chart .legend-item', (all) => all.length), 2);
  await picture('10-chart-two');
  const category = await page.$eval('.chart text.category', (text) => text.textContent);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.click('#panel-chart button:has-text("SVG")'),
  ]);
  await isPicture(download, 'chart.svg', category);
  await page.click('.view-controls button:has-text("Points")');
  await page.waitForSelector('.chart');
  await picture('11-chart-points');
  await page.click('.view-controls button:has-text("Bars")');
  await tab('table');
});

test('says what a chart leaves out without a scroll, and tells its bars apart', async (t) => {
  if (!isMock) return t.skip('needs rows with numbers');
  await run('SELECT * WHERE { ?s ?p ?o }');
  await tab('chart');
  await page.selectOption('#panel-chart [data-name=x]', { label: 'person' });
  await page.waitForSelector('.chart text.category');
  const note = page.locator('.view-controls [role=status]', { hasText: 'The first 60 of 1 234 rows' });
  await note.waitFor();
  const box = await note.boundingBox();
  assert(box.y + box.height < 800 && box.width > 0, 'it is in sight');
  // IRIs that begin alike are named by their ends.
  const names = await page.$$eval('.chart text.category', (all) => all.map((text) => text.textContent));
  assert.equal(new Set(names).size, 60);
  assert.match(names[0], /^Ada_Lovelace_0$/);
  await tab('table');
});

test('explains without running, and while a query runs', async () => {
  await type(SELECT, { pasted: true });
  await page.click('#explain');
  await page.waitForSelector('.plan tbody tr');
  await page.waitForSelector('.state.planned');
  await picture('12-explain-planned');
  await isDone();
  const text = isMock
    ? 'SELECT * WHERE { ?slow ?p ?o }'
    : 'SELECT (COUNT(*) AS ?n) WHERE { ?a ?p ?b . ?c ?p ?d . FILTER(?b != ?d) }';
  await type(text, { pasted: true });
  await page.keyboard.press('ControlOrMeta+Enter');
  // The plan was asked for, the rows are wanted: a run leaves the tab that “Explain” had opened.
  await page.waitForSelector('#tab-table[aria-selected=true]');
  await tab('explain');
  await page.waitForSelector('.state.running');
  await page.waitForTimeout(600);
  await page.click('.plan tbody tr:nth-child(2)');
  await page.waitForSelector('#panel-explain .side h3');
  await picture('13-explain-running');
  await page.click('#stop');
  await isDone();
  await page.waitForFunction(
    () => /stopped/.test(document.getElementById('result-summary').textContent) || document.querySelector('.failure'),
  );
  await run(SELECT);
  await page.waitForSelector('.state.done');
  await picture('14-explain-done');
  // The server's time and the page's are told apart.
  await page.waitForFunction(() => /server .*s\s*page .*s/.test(document.getElementById('result-summary').textContent));
  // An index is said in words.
  assert.match(await page.$eval('.operator-detail abbr', (name) => name.title), /index that has the quads ordered by/);
});

/// The frame with the viewer, when it has drawn.
async function viewer() {
  const frame = await (await page.waitForSelector('iframe.run')).contentFrame();
  await frame.waitForSelector('h1');
  if (!isMock) await frame.waitForFunction(() => globalThis.vicusView?.timeline.drawn > 0);
  return frame;
}

test('shows the time line in the viewer of recorded runs, and a recording from a file', async () => {
  await run(SELECT);
  await tab('timeline');
  const frame = await viewer();
  const name = await frame.textContent('h1');
  await picture('15-timeline');
  // The page in the frame has no origin, so neither the server's answers nor what this page keeps are its own.
  assert.equal(await frame.evaluate(() => globalThis.origin), 'null');
  if (!isMock) {
    await frame.waitForFunction(() => [...globalThis.vicusView.timeline.slices.values()].some(Boolean));
    await frame.focus('.place canvas');
    await page.keyboard.press('w');
    await frame.waitForFunction(() => globalThis.vicusView.timeline.window[0] > 0);
    await picture('16-timeline-zoomed');
  }
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.click('#panel-timeline button:has-text("Save the run")'),
  ]);
  const saved = await download.path();
  assert.match(readFileSync(saved, 'utf8'), /^<!DOCTYPE html>/);
  const buffer = readFileSync(saved);
  await page.setInputFiles('#panel-timeline input[type=file]', { name: 'mine.html', mimeType: 'text/html', buffer });
  await page.waitForFunction(() => document.querySelector('#panel-timeline .view-controls').textContent.includes('mine.html'));
  assert.equal(await (await viewer()).textContent('h1'), name);
  const wrong = { name: 'other.trace', mimeType: 'text/plain', buffer: Buffer.from('no trace') };
  await page.setInputFiles('#panel-timeline input[type=file]', wrong);
  await page.waitForFunction(() => /neither a trace/.test(document.getElementById('panel-timeline').textContent));
  await tab('table');
});

test('shows the machine', async () => {
  await page.click('[data-open=machine]');
  await page.waitForFunction(() => /%/.test(document.querySelector('.pu-value')?.textContent ?? ''));
  await page.waitForTimeout(isMock ? 1200 : 2500);
  await picture('17-machine');
});

test('lists requests and stops one', async () => {
  await page.click('[data-open=query]');
  await type(
    isMock
      ? 'SELECT * WHERE { ?slow ?p ?o }'
      : 'SELECT (COUNT(*) AS ?n) WHERE { ?a ?p ?b . ?c ?p ?d . FILTER(?b != ?d) }',
    { pasted: true },
  );
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForFunction(() => document.getElementById('results').getAttribute('aria-busy') === 'true');
  await page.click('[data-open=requests]');
  const mine = page.locator('.requests tr', { has: page.locator('.tag', { hasText: 'mine' }) });
  await mine.first().waitFor();
  await picture('18-requests');
  await mine.first().locator('.danger').click();
  await mine.first().waitFor({ state: 'detached' });
  await page.click('[data-open=query]');
  await isDone();
});

test('has the names of the data beside the editor', async (t) => {
  await type('SELECT * WHERE { ?s ', { pasted: true });
  await page.click('#toggle-data');
  await page.waitForSelector('.data-list .list-button, .data-list .empty');
  if (await page.$('.data-list .empty')) return t.skip('the server does not tell what the data has');
  await picture('18-data');
  await page.click('[data-section=Predicates] .list-button');
  const [name, iri] = await page.$eval('[data-section=Predicates] .list-button', (line) => [
    line.firstChild.textContent,
    line.title,
  ]);
  const text = await editorText();
  assert(text.includes(`{ ?s ${name} `), text);
  assert(name.startsWith('<') || text.startsWith('PREFIX '), `${iri} needs its prefix: ${text}`);
  await page.click('[aria-label="Close the panel of the data"]');
});

test('keeps queries in tabs, over visits', async () => {
  await type('ASK { ?first ?p ?o }', { pasted: true });
  await page.keyboard.press('ControlOrMeta+Enter');
  await page.waitForSelector('.verdict');
  const open = await page.$$eval('#query-tabs [role=tab]', (tabs) => tabs.length);
  await page.click('#new-tab');
  await type('SELECT ?second WHERE { ?second ?p ?o } LIMIT 5', { pasted: true });
  assert.equal(await page.$('.verdict'), null);
  await page.click('#query-tabs [role=tab]:has-text("first")');
  assert.match(await editorText(), /first/);
  // Its result came back with it.
  await page.waitForSelector('.verdict');
  await page.waitForTimeout(600);
  const other = await newPage(context);
  await other.goto(base);
  await other.waitForSelector('.cm-content');
  assert.equal(await other.$$eval('#query-tabs [role=tab]', (tabs) => tabs.length), open + 1);
  assert.match(await other.$eval('.cm-line', (line) => line.textContent), /first/);
  await other.close();
  await page.click('#query-tabs [role=tab]:has-text("second")');
  await page.keyboard.press('Delete');
  await page.waitForFunction((open) => document.querySelectorAll('#query-tabs [role=tab]').length === open, open);
});

test('keeps a history', async () => {
  await page.click('#toggle-history');
  await page.waitForSelector('.history-entry');
  await picture('19-history');
  const all = await page.$$eval('.history-entry', (list) => list.length);
  await page.fill('.drawer input', 'group by');
  assert((await page.$$eval('.history-entry', (list) => list.length)) < all);
  await page.click('.history-text');
  assert.match(await editorText(), /GROUP BY/);
  await page.fill('.drawer input', '');
  await page.click('.history-entry [aria-label="Delete from the history"]');
  assert.equal(await page.$$eval('.history-entry', (list) => list.length), all - 1);
  await page.keyboard.press('Escape');
  await page.click('[aria-label="Close the history"]').catch(() => {});
});

test('shares a link that holds the query', async () => {
  await type('SELECT * WHERE { ?s ?p "a+b & c#d" }', { pasted: true });
  await page.click('#share');
  await page.click('.menu-item:has-text("link")');
  const link = page.url();
  assert.match(link, /#query=/);
  const other = await newPage(context);
  await other.goto(link);
  await other.waitForSelector('.cm-content');
  assert.equal(await other.$eval('.cm-line', (line) => line.textContent), 'SELECT * WHERE { ?s ?p "a+b & c#d" }');
  await other.close();
});

test('downloads a result', async () => {
  await run(SELECT);
  await page.click('#download');
  await page.waitForSelector('.menu');
  await picture('20-download');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('.menu-item:has-text("CSV")')]);
  assert.equal(download.suggestedFilename(), 'result.csv');
  assert.equal(await download.failure(), null);
});

test('sends an update only with a token, or says that updates are off', async (t) => {
  const { update, readOnly } = await page.evaluate(async () => {
    const info = await (await fetch('api/info')).json();
    return { update: info.update, readOnly: info.dataset.readOnly };
  });
  if (update === 'open') return t.skip('it would change the data of this server');
  await type('INSERT DATA { <http://example.org/a> <http://example.org/b> <http://example.org/c> }', { pasted: true });
  await page.keyboard.press('ControlOrMeta+Enter');
  if (update === 'off' || readOnly) {
    await page.waitForSelector('.failure');
  } else if (update === 'token') {
    await page.waitForSelector('dialog');
    await picture('21-token');
    await page.keyboard.press('Escape');
    await page.waitForSelector('.failure');
    await isDone();
    if (!isMock) return;
    await page.keyboard.press('ControlOrMeta+Enter');
    // A token that the server does not take is not kept: the dialog comes back.
    await page.fill('#token-field', 'wrong');
    await page.keyboard.press('Enter');
    await page.waitForSelector('dialog p:has-text("does not take")');
    assert.equal(await page.evaluate(() => sessionStorage.getItem('vicus.token')), null);
    await page.fill('#token-field', 'secret');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.verdict.yes');
  }
  await isDone();
});

test('adds a file to a graph', async (t) => {
  if (!isMock) return t.skip('it would change the data of this server');
  const upload = async (name, text, graph, said) => {
    await page.click('#toggle-data');
    await page.click('#data-panel button:has-text("Upload")');
    await page.setInputFiles('#upload-file', { name, mimeType: '', buffer: Buffer.from(text) });
    await page.fill('#upload-graph', graph);
    await picture('21-upload');
    await page.click('dialog button:has-text("Upload")');
    await page.waitForSelector(`.toast:has-text("${said}")`);
    await page.click('[aria-label="Close the panel of the data"]');
  };
  // The token of the update is there: what is sent counts in bytes, and the syntax is that of the ending.
  await upload('people.ttl', '<a:a> <a:b> 1 .\n', 'http://example.org/g', 'people.ttl is stored, 16 B');
  await upload('wrong.nt', 'oops', '', 'Upload failed: line 1: `oops` is no triple');
  await upload('all.nt', '<a:a> <a:b> <a:c> .\n', '', 'all.nt is stored, 20 B');
  assert.deepEqual(stored, [
    { graph: 'http://example.org/g', type: 'text/turtle', bytes: 16 },
    { graph: 'default', type: 'application/n-triples', bytes: 20 },
  ]);
});

test('asks for a token first where the server answers with one only', async (t) => {
  if (!isMock) return t.skip('needs a server with a token for queries');
  const closed = mockServer({ info: { query: 'token' } });
  await new Promise((resolve) => closed.listen(0, '127.0.0.1', resolve));
  const visitor = await browser.newContext();
  const other = await visitor.newPage();
  await other.goto(`http://127.0.0.1:${closed.address().port}/`);
  await other.fill('#token-field', 'secret');
  await other.keyboard.press('Enter');
  await other.click('.welcome-examples button');
  await other.waitForSelector('.results tbody tr');
  await other.click('#tab-explain');
  await other.waitForSelector('.plan tbody tr');
  await visitor.close();
  closed.closeAllConnections();
  closed.close();
});

test('switches to SQL where the server has it', async (t) => {
  const button = await page.$('[data-language=sql]');
  if (!button || !(await button.isVisible())) return t.skip('one language only');
  await button.click();
  await type('SELECT name, id FROM people WHERE id > 10 LIMIT 5', { pasted: true });
  await picture('22-sql');
  // Each language has a text of its own.
  await page.click('[data-language=sparql]');
  assert.doesNotMatch(await editorText(), /FROM people/);
  await page.click('[data-language=sql]');
  assert.match(await editorText(), /FROM people WHERE/);
  await page.click('[data-language=sparql]');
});

test('every control has a name, and every id is there once', async () => {
  const wrong = await page.evaluate(() => {
    const named = (element) =>
      element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.length || element.title;
    const silent = [...document.querySelectorAll('button, input, select, a[href], [role=button]')]
      .filter((element) => !named(element))
      .map((element) => element.outerHTML.slice(0, 120));
    const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id);
    return [...silent, ...ids.filter((id, at) => ids.indexOf(id) !== at)];
  });
  assert.deepEqual(wrong, []);
});

test('is dark where the system is, and by its button', async () => {
  await page.click('#theme');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await run(SELECT);
  await picture('30-dark-table');
  await tab('explain');
  await page.waitForSelector('.state.done');
  await picture('31-dark-explain');
  await tab('timeline');
  await viewer();
  await picture('32-dark-timeline');
  await page.click('[data-open=machine]');
  await page.waitForFunction(() => /%/.test(document.querySelector('.pu-value')?.textContent ?? ''));
  await page.waitForTimeout(isMock ? 1200 : 2500);
  await picture('33-dark-machine');
  await page.click('[data-open=query]');
  await run('CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o } LIMIT 80');
  await tab('graph');
  await page.waitForSelector('.graph .node');
  await page.waitForTimeout(150);
  await picture('34-dark-graph');
  await run('SELECT ?p (COUNT(*) AS ?n) (COUNT(DISTINCT ?s) AS ?subjects) WHERE { ?s ?p ?o } GROUP BY ?p');
  await tab('chart');
  await picture('35-dark-chart');
  await type('SELECT * WHERE {\n?s ?p oops oops }');
  await page.waitForSelector('.error-line');
  await picture('36-dark-error');
});

test('fits a phone', async () => {
  const phone = await browser.newContext({
    viewport: { width: 390, height: 844 },
    colorScheme: 'light',
    hasTouch: true,
  });
  const old = page;
  page = await newPage(phone);
  await page.goto(base);
  await page.waitForSelector('.cm-content');
  await picture('40-phone-welcome');
  await run(SELECT);
  await picture('41-phone-table');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert(wide <= 0, `the page is ${wide} pixels too wide`);
  // A finger finds no title: what a button does stands on it.
  const silent = await page.$$eval('.toolbar button', (all) =>
    all.filter((button) => button.checkVisibility() && !button.innerText.trim()).map(({ id }) => id),
  );
  assert.deepEqual(silent, []);
  const cut = await page.$$eval('.toolbar .ghost span', (all) =>
    all.filter((text) => text.scrollWidth > text.parentElement.clientWidth).map((text) => text.textContent),
  );
  assert.deepEqual(cut, []);
  await tab('explain');
  await page.waitForSelector('.plan tbody tr');
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await picture('42-phone-explain');
  await tab('timeline');
  await viewer();
  await picture('43-phone-timeline');
  await page.click('[data-open=machine]');
  await page.waitForSelector('.pu');
  await picture('44-phone-machine');
  await page.click('[data-open=requests]');
  await page.waitForTimeout(500);
  await picture('45-phone-requests');
  page = old;
  await phone.close();
});

test('asked no other host and wrote no error', () => {
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});
