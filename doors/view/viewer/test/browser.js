// Pages of `vicus trace view` in a real browser, opened from the disk: `node --test test/browser.js`.
//
//   VICUS           the program `vicus`
//   BROWSER         `chromium`, which is the default, or `firefox`
//   CHROMIUM        the program; without it, Debian's `chromium` or `chromium-headless-shell`
//   FIREFOX         likewise; without it, `firefox-esr` or `firefox`
//   SCREENSHOTS     a folder for pictures; without it none are taken

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium, firefox } from 'playwright-core';
import { repeat } from './repeated.js';

const QUERY = `PREFIX swrc: <http://swrc.ontoware.org/ontology#>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
SELECT DISTINCT ?one ?other { ?a swrc:journal ?j ; dc:title ?one . ?b swrc:journal ?j ; dc:title ?other FILTER(?one < ?other) }
`;

const isFirefox = process.env.BROWSER === 'firefox';
let folder;
let browser;
let page;
let summary;
const requests = [];
const complaints = [];

const vicus = (...args) => execFileSync(process.env.VICUS, args, { encoding: 'utf8', maxBuffer: 1 << 28 });
const file = (name) => join(folder, name);

before(async () => {
  assert(process.env.VICUS, 'VICUS names the program');
  folder = mkdtempSync(join(tmpdir(), 'vicus-view-'));
  vicus('generate', 'sp2b', '--triples', '20000', '--output', file('sp2b.nt'));
  writeFileSync(file('slow.rq'), QUERY);
  const query = ['query', '--data', file('sp2b.nt'), '--query', file('slow.rq'), '--format', 'count', '--trace'];
  vicus(...query, file('run.trace'), '--threads', '2');
  vicus(...query, file('alone.trace'), '--threads', '1');
  vicus('trace', 'view', file('run.trace'), '-o', file('run.html'));
  summary = JSON.parse(vicus('trace', 'summary', file('run.trace'), '--format', 'json'));
  browser = await launched();
  page = await opened('run.html');
});

// A page behind another one gets no frames in Firefox.
beforeEach(() => page?.bringToFront());

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/// The browser that is asked for. Firefox, as distributions have it, is driven by WebDriver BiDi, in which colours and scripts are
/// `settings` of the browser and not of a page.
async function launched(settings = {}) {
  const [given, names] = isFirefox
    ? [process.env.FIREFOX, ['firefox-esr', 'firefox']]
    : [process.env.CHROMIUM, ['chromium', 'chromium-headless-shell']];
  const executablePath = given ?? names.map((name) => `/usr/bin/${name}`).find(existsSync);
  assert(executablePath, `${names[0]} is installed`);
  if (!isFirefox) return chromium.launch({ executablePath, args: ['--no-sandbox'] });
  const firefoxUserPrefs = {
    'ui.systemUsesDarkTheme': 0,
    ...settings,
  };
  return firefox.launch({ channel: 'moz-firefox', executablePath, firefoxUserPrefs });
}

async function opened(name, options = {}, of = browser) {
  const { hash = '', isLarge, isPlain, ...more } = options;
  const context = await of.newContext({ viewport: { width: 1280, height: 860 }, acceptDownloads: true, ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on('request', (request) => requests.push(request.url()));
  // That a picture is read often is these tests' doing.
  const isOurs = (text) => text.includes('willReadFrequently');
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !isOurs(message.text())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  await page.goto(`file://${file(name)}${hash}`);
  if (!isPlain && options.javaScriptEnabled !== false) {
    await page.waitForFunction(() => globalThis.vicusView?.timeline.drawn > 0);
    await page.waitForFunction((isLarge) => {
      const { slices, levels } = globalThis.vicusView.timeline;
      return [...(isLarge ? levels : slices).values()].some(Boolean);
    }, Boolean(isLarge));
  }
  return page;
}

/// Sums up a range, which is made of the whole length.
async function setRange(of, rangeOf) {
  const range = rangeOf(await timeline((t) => t.span, of));
  await of.evaluate((range) => globalThis.vicusView.setRange(range), range);
  await of.waitForFunction(() => document.querySelector('.range [role=status]')?.textContent.includes('The tables'));
}

/// Saves the trace out of a page, as a file of this name.
async function save(of, name) {
  if (!isFirefox) {
    const [download] = await Promise.all([of.waitForEvent('download'), of.click('button.save')]);
    return download.saveAs(file(name));
  }
  // Firefox tells its driver of no download: the file is taken where the page hands it over.
  await of.evaluate(() => {
    const { createObjectURL } = URL;
    URL.createObjectURL = (blob) => {
      globalThis.handedOver = blob;
      return createObjectURL.call(URL, blob);
    };
  });
  await of.click('button.save');
  await of.waitForFunction(() => globalThis.handedOver);
  const text = await of.evaluate(async () => {
    const bytes = new Uint8Array(await globalThis.handedOver.arrayBuffer());
    let text = '';
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(text);
  });
  return writeFileSync(file(name), Buffer.from(text, 'base64'));
}

async function picture(name, of = page) {
  if (!process.env.SCREENSHOTS) return;
  mkdirSync(process.env.SCREENSHOTS, { recursive: true });
  await of.screenshot({ path: join(process.env.SCREENSHOTS, `${name}.png`), fullPage: true });
}

const timeline = (read, of = page) => of.evaluate(`(${read})(globalThis.vicusView.timeline)`);
const length = async () => {
  const [from, to] = await timeline((t) => t.window);
  return to - from;
};
const canvas = () => page.locator('.place canvas').boundingBox();

/// The cells of a table by its rows' first cells.
const table = (id, of = page) =>
  of.$eval(`#${id}`, (table) => {
    const names = [...table.tHead.rows[0].cells].map(({ textContent }) => textContent);
    return [...table.tBodies[0].rows].map(({ cells }) =>
      Object.fromEntries([...cells].map(({ textContent }, at) => [names[at], textContent])),
    );
  });

/// The columns that say what idle time is.
const IDLE = ['waits for its tasks ms', 'waits for a group ms', 'at barriers ms', 'asleep ms', 'waits to be lent ms'];

const ms = (ns) => {
  const us = Math.floor((ns + 500) / 1000);
  return `${Math.floor(us / 1000)}.${String(us % 1000).padStart(3, '0')}`;
};

function compareBoxes(rows, of = summary) {
  const { boxes } = of;
  assert.equal(rows.length, boxes.length);
  for (const box of boxes) {
    const row = rows.find(({ type }) => type === box.type_name);
    assert.deepEqual(
      row,
      {
        type: box.type_name,
        boxes: String(box.boxes),
        invocations: String(box.invocations),
        spawned: String(box.spawned),
        'queued ms': ms(box.queued_ns),
        'busy ms': ms(box.busy_ns),
        'blocked ms': ms(box.blocked_ns),
        'envelopes in': String(box.envelopes_in),
        'rows in': String(box.rows_in),
        'envelopes out': String(box.envelopes_out),
        'rows out': String(box.rows_out),
        'bytes made': String(box.bytes_created),
        'near bytes': String(box.near_bytes),
        'far bytes': String(box.far_bytes),
        ...Object.fromEntries(IDLE.slice(0, 3).map((name) => [name, row[name]])),
      },
      box.type_name,
    );
  }
}

function compareSeats(rows, of = summary) {
  for (const seat of of.seats) {
    const row = rows[seat.seat];
    const sum = (side) => String(seat.takes.reduce((sum, takes) => sum + takes[side], 0));
    assert.deepEqual(
      [row.invocations, row['busy ms'], row['overhead ms'], row['idle ms'], row['near takes'], row['far takes']],
      [String(seat.invocations), ms(seat.busy_ns), ms(seat.overhead_ns), ms(seat.idle_ns), sum('near'), sum('far')],
      `seat ${seat.seat}`,
    );
    const parts = IDLE.map((name) => Number(row[name]));
    const all = parts.reduce((sum, part) => sum + part);
    assert(Math.abs(all - seat.idle_ns / 1e6) < 0.004, `seat ${seat.seat}: ${parts} of ${row['idle ms']}`);
  }
}

test('the tables have the figures of the summary, without a script as well', async () => {
  compareBoxes(await table('r0-boxes'));
  compareSeats(await table('r0-seats'));
  const other = isFirefox ? await launched({ 'javascript.enabled': false }) : browser;
  const plain = await opened('run.html', isFirefox ? { isPlain: true } : { javaScriptEnabled: false }, other);
  compareBoxes(await table('r0-boxes', plain));
  assert.equal(await plain.locator('#view').isVisible(), false);
  assert.match(await plain.locator('header').innerText(), /every event is allowed where it stands/);
  assert.match(await plain.locator('header').innerText(), /command\s*\S*vicus query/);
  await plain.context().close();
  if (isFirefox) await other.close();
});

test('the time line has the slices of the run, in their colours', async () => {
  await picture('whole');
  const { data, colours } = await page.evaluate(() => {
    const { canvas, series } = globalThis.vicusView.timeline;
    const context = canvas.getContext('2d');
    const seen = new Set();
    const { data } = context.getImageData(0, 60, canvas.width, canvas.height - 60);
    for (let at = 0; at < data.length; at += 4) seen.add(`rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`);
    return { data: [...seen], colours: series };
  });
  assert(
    colours.slice(0, 3).every((colour) => data.includes(colour)),
    'the three busiest types are seen',
  );
});

test('keys zoom and pan, and the link remembers where', async () => {
  await page.locator('.place canvas').focus();
  const whole = await length();
  for (let times = 0; times < 6; times += 1) await page.keyboard.press('w');
  assert(Math.abs((await length()) - whole / 1.4 ** 6) < whole / 1000);
  const [from] = await timeline((t) => t.window);
  await page.keyboard.press('d');
  assert((await timeline((t) => t.window))[0] > from);
  await page.waitForFunction(() => location.hash.includes('at='));
  const hash = await page.evaluate(() => location.hash);
  const window = await timeline((t) => t.window);
  const other = await opened('run.html', { hash });
  assert.deepEqual(await timeline((t) => t.window, other), window.map(Math.round));
  await other.context().close();
  await page.keyboard.press('f');
  assert.equal(await length(), whole);
  await page.keyboard.press('?');
  assert(await page.locator('dialog').isVisible());
  await page.keyboard.press('Escape');
});

test('the wheel zooms to where the pointer is', async () => {
  const { x, y, width } = await canvas();
  await page.mouse.move(x + width * 0.6, y + 80);
  const at = (t) => t.window[0] + ((t.place.clientWidth * 0.6 - t.gutter) / t.plot) * (t.window[1] - t.window[0]);
  const before = await timeline(at);
  await page.mouse.wheel(0, -600);
  await page.waitForFunction(() => globalThis.vicusView.timeline.window[0] > 0);
  const length = await timeline((t) => t.window[1] - t.window[0]);
  assert(Math.abs((await timeline(at)) - before) < length / 50);
  await page.locator('.place canvas').focus();
  await page.keyboard.press('0');
});

/// Clicks the longest slice of the run.
async function clickLongest() {
  const { x, y } = await canvas();
  const spot = await page.evaluate(() => {
    const { timeline } = globalThis.vicusView;
    let best = { ns: 0 };
    for (const [name, slices] of timeline.slices) {
      const [run, chunk] = name.split('.').map(Number);
      const seat = timeline.runs[run].chunks[chunk][0];
      slices?.begin.forEach((begin, at) => {
        const ns = slices.end[at] - begin;
        if (slices.state[at] === 1 && ns > best.ns) best = { ns, seat, key: slices.key[at], middle: begin + ns / 2 };
      });
    }
    const row = timeline.rows.find((row) => row.seat === best.seat);
    const [from, to] = timeline.window;
    const left = timeline.gutter + ((best.middle - from) / (to - from)) * timeline.plot;
    return { ...best, left, top: row.top + row.height / 2, name: timeline.runs[0].keys[best.key].name };
  });
  await page.mouse.click(x + spot.left, y + spot.top);
  return spot;
}

test('a click on a slice marks it everywhere and says what it waited for', async () => {
  const { key, name, seat } = await clickLongest();
  await page.waitForSelector('.told h3');
  const story = await page.locator('.story').innerText();
  assert(story.startsWith(name), story);
  assert.match(story, /What it waited for/);
  assert.match(story, /queued|An envelope of/);
  assert.equal(await page.locator(`.network [data-key="${key}"].touched`).count(), 1);
  assert((await page.locator('.network .via.touched').count()) > 0);
  assert.equal(await page.locator(`#r0-seats tr[data-seat="${seat}"].touched`).count(), 1);
  assert.equal(await page.locator(`.floor [data-seat="${seat}"].touched`).count(), 1);
  assert((await page.locator(`.plan [data-seat="${seat}"].touched`).count()) > 0);
  assert((await timeline((t) => t.arrows.length)) > 0);
  await picture('slice');
  const place = (t) => [t.chosen.chunk, t.chosen.number];
  const before = await timeline(place);
  await page.locator('.place canvas').focus();
  await page.keyboard.press('.');
  assert.notDeepEqual(await timeline(place), before);
  await page.keyboard.press('Escape');
  assert.equal(await timeline((t) => t.chosen), null);
});

test('a click on a box of the network, a via or a core marks it in the time line', async () => {
  const box = page.locator('.network .box').nth(2);
  await box.click();
  assert.equal(await timeline((t) => t.mark.kind), 'key');
  assert.match(await box.getAttribute('class'), /marked/);
  await page.locator('.network .via').nth(1).press('Enter');
  assert.equal(await timeline((t) => t.mark.kind), 'via');
  await page.locator('.floor .seat').first().click();
  assert.deepEqual(await timeline((t) => t.mark), { kind: 'seat', id: 0, run: 0 });
  assert((await page.locator('#r0-seats tr.marked').count()) === 1);
  await page.getByRole('button', { name: 'Unmark' }).click();
  assert.equal(await timeline((t) => t.mark), null);
});

test('a range sums up, and the whole run sums up to the summary', async () => {
  const { x, y, width } = await canvas();
  await page.mouse.move(x + width * 0.4, y + 80);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.7, y + 80, { steps: 4 });
  await page.mouse.up();
  await page.waitForSelector('text=The tables are about this range.');
  await picture('range');
  const busy = (rows) => rows.reduce((sum, row) => sum + Number(row['busy ms']), 0);
  const part = busy(await table('r0-boxes'));
  const all = summary.boxes.reduce((sum, box) => sum + box.busy_ns, 0) / 1e6;
  assert(part > 0 && part < all, `${part} of ${all}`);
  await page.evaluate(() => {
    const { vicusView } = globalThis;
    vicusView.setRange([0, vicusView.timeline.span]);
  });
  await page.waitForFunction(() => document.querySelector('.range [role=status]')?.textContent.includes('The tables'));
  compareBoxes(await table('r0-boxes'));
  compareSeats(await table('r0-seats'));
  await page.getByRole('button', { name: 'Clear' }).click();
  assert.equal(await page.locator('table.of-range').count(), 0);
});

test('a run of many chunks sums up to its summary', async () => {
  const machine = ['--machine', 'node:2 l3:1 core:2', '--kernel', 'fib', '--strategy', 'las'];
  vicus('simulate', ...machine, '--view', file('many.html'));
  const many = await opened('many.html', { isLarge: true });
  const counts = await timeline((t) => t.runs[0].counts, many);
  assert(Math.max(...counts) > 3 * 32_768, `${counts}: a seat has several chunks`);
  await save(many, 'many.trace');
  const told = JSON.parse(vicus('trace', 'summary', file('many.trace'), '--format', 'json'));
  compareBoxes(await table('r0-boxes', many), told);
  await many.evaluate(() => {
    const { vicusView } = globalThis;
    vicusView.setRange([0, vicusView.timeline.span]);
  });
  await many.waitForFunction(() => document.querySelector('.range [role=status]')?.textContent.includes('The tables'));
  compareBoxes(await table('r0-boxes', many), told);
  compareSeats(await table('r0-seats', many), told);
  await many.context().close();
});

test('a box is found by its name', async () => {
  await page.keyboard.press('/');
  await page.keyboard.type('hash join');
  const hits = page.locator('.hits button');
  assert.match(await hits.first().innerText(), /hash join/);
  await page.keyboard.press('Enter');
  assert.equal(await timeline((t) => t.runs[0].keys[t.mark.id].type), 'hash join');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  assert.equal(await timeline((t) => t.mark), null);
});

test('rows by box, other colours, and the longest chain', async () => {
  await page.locator('.place canvas').focus();
  await page.keyboard.press('b');
  await page.waitForFunction(() => globalThis.vicusView.timeline.rows?.every(({ kind }) => kind === 'key'));
  await page.keyboard.press('c');
  for (const name of ['Request', 'Rule', 'Memory wait', 'Box']) {
    await page.getByRole('button', { name, exact: true }).click();
    assert.equal(await page.getByRole('button', { name, exact: true }).getAttribute('aria-pressed'), 'true');
  }
  await picture('boxes');
  await page.locator('.place canvas').focus();
  await page.keyboard.press('b');
  await page.keyboard.press('c');
});

test('the trace that is saved out of the page is the recorded one', async () => {
  await save(page, 'saved.trace');
  const of = (name) => JSON.parse(vicus('trace', 'summary', file(name), '--format', 'json'));
  assert.deepEqual(of('saved.trace'), summary);
  assert.equal(vicus('trace', 'events', file('saved.trace')), vicus('trace', 'events', file('run.trace')));
});

test('a page becomes a new page', async () => {
  vicus('trace', 'view', file('run.html'), '-o', file('again.html'));
  const again = await opened('again.html');
  compareBoxes(await table('r0-boxes', again));
  await again.context().close();
  assert.equal(readFileSync(file('again.html'), 'utf8'), readFileSync(file('run.html'), 'utf8'));
});

test('figures, charts and requests are about the range, and those of the whole run are as before', async () => {
  const figures = () => page.$$eval('#r0-why .figure b', (all) => all.map(({ textContent }) => textContent));
  const plans = await page.$$eval('#r0-operators table', (tables) => tables.map(({ id }) => id.slice(3)));
  assert.equal(plans.length, 1);
  const names = ['chain', 'vias', 'takes', ...plans];
  const shown = async () => ({ figures: await figures(), rows: await Promise.all(names.map((name) => table(`r0-${name}`))) });
  const whole = await shown();
  await setRange(page, (span) => [0, span]);
  // The page's writer and the viewer find the same chain, the same what-if, the same vias and takes.
  assert.deepEqual(await shown(), whole);
  await setRange(page, (span) => [span * 0.4, span * 0.6]);
  const part = await shown();
  const number = (text) => Number(text.replace(' ms', ''));
  const span = await timeline((t) => t.span);
  assert(Math.abs(number(part.figures[0]) - span * 0.2e-6) < 0.002, part.figures[0]);
  assert(number(part.figures[1]) < number(whole.figures[1]) && number(part.figures[3]) < number(whole.figures[3]));
  const [chain] = part.rows;
  assert(chain.every((row) => number(row['chain without it ms']) <= number(part.figures[3])), JSON.stringify(chain));
  assert(chain.some((row) => number(row['chain without it ms']) < number(part.figures[3])));
  assert.match(await page.$eval('.over.queued figcaption', ({ textContent }) => textContent), /in the range$/);
  const [left, , wide] = (await page.$eval('.over.busy svg', (svg) => svg.getAttribute('viewBox'))).split(' ').map(Number);
  assert(Math.abs(left - 409.6) < 2 && Math.abs(wide - 204.8) < 3, `${left} ${wide}`);
  // Of the operators, the parts of a run add up to all of it: each envelope is sent in one of them.
  const work = (of) => of.rows[3].map((row) => [row.operator, Number(row.rows), Number(row.invocations)]);
  const parts = [];
  for (const [from, to] of [[0, 0.4], [0.4, 0.6], [0.6, 1]]) {
    // No event is on a border: times are whole numbers.
    const border = (share) => (share % 1 ? Math.floor(span * share) + 0.5 : span * share);
    await setRange(page, () => [border(from), border(to)]);
    parts.push(work(await shown()));
  }
  const sum = (column) => work(whole).map((_, row) => parts.reduce((sum, part) => sum + part[row][column], 0));
  for (const column of [1, 2]) assert.deepEqual(sum(column), work(whole).map((row) => row[column]));
  assert(work(whole).some(([, rows]) => rows > 0));
  await page.getByRole('button', { name: 'Clear' }).click();
  assert.deepEqual(await shown(), whole);
  assert.equal(await page.$eval('.over.busy svg', (svg) => svg.getAttribute('viewBox')), '0 0 1024 60');
});

test('parts of the machine and queues of the plan mark their seats, and are marked with them', async () => {
  const shown = await opened('run.html');
  const machine = JSON.parse(vicus('topology', '--format', 'json'));
  assert.equal(await shown.locator('.floor .pu').count(), machine.pus.length);
  assert.equal(await shown.locator('.floor .node').count(), machine.nodes.length);
  assert.equal(await shown.locator('.floor .core').count(), machine.cores.length);
  const marked = () => timeline((t) => ({ ...t.mark, seats: [...t.seats] }), shown);
  const touched = (selector) => shown.$$eval(`${selector}.touched`, (all) => all.map(({ dataset }) => Number(dataset.seat)));
  const core = shown.locator('.floor .core[data-place]').first();
  const seats = (await core.getAttribute('data-seats')).split(' ').map(Number);
  await core.locator('> button').click();
  assert.equal(await core.getAttribute('class'), 'core marked');
  assert.deepEqual((await marked()).seats, seats);
  assert.deepEqual((await touched('.floor [data-seat]')).sort(), seats);
  assert.deepEqual((await touched('.matrix tr')).sort(), seats);
  await shown.waitForFunction(() => location.hash.includes('mark=place:'));
  const again = await opened('run.html', { hash: await shown.evaluate(() => location.hash) });
  assert.deepEqual(await timeline((t) => [...t.seats], again), seats);
  assert.match(await again.locator('.mark-line').innerText(), /^Marked: core \d+/);
  await again.context().close();
  // A queue: those that take from it.
  const column = shown.locator('.matrix th[data-place]').first();
  await column.locator('span').click();
  const takers = (await column.getAttribute('data-seats')).split(' ').map(Number);
  assert.deepEqual(await touched('.matrix tr'), takers);
  assert.deepEqual((await marked()).seats, takers);
  // A cell is a step of a search, as in the text beneath.
  const cell = shown.locator('.matrix td[data-rule]').first();
  const [rule] = (await cell.getAttribute('data-rule')).split(' ').map(Number);
  await cell.click();
  const { kind, id } = await marked();
  assert.deepEqual([kind, id], ['rule', rule]);
  assert(await shown.locator(`.plan [data-rule="${rule}"].marked`).count());
  // And back: a seat's core, and the queues that it takes from.
  await shown.locator('.floor .seat').first().click();
  const { id: seat } = await marked();
  const inSeat = (selector) =>
    shown.$$eval(selector, (all, seat) => all.every((each) => each.classList.contains('touched') === each.dataset.seats.split(' ').includes(String(seat))), seat);
  assert(await inSeat('.floor [data-place]'));
  assert(await inSeat('.matrix th[data-place]'));
  await picture('machine', shown);
  await shown.context().close();
});

test('requests outside of the range are not listed', async () => {
  repeat(file('run.trace'), file('three.trace'), 3);
  vicus('trace', 'view', file('three.trace'), '-o', file('three.html'));
  const shown = await opened('three.html');
  const listed = () =>
    shown.$$eval('#r0-requests tbody tr', (all) => all.filter(({ hidden }) => !hidden).map(({ dataset }) => dataset.request));
  const requests = await timeline((t) => t.runs[0].requests, shown);
  assert.equal((await listed()).length, requests.length);
  const [, begin, end] = requests[Math.floor(requests.length / 2)];
  const [from, to] = [begin + (end - begin) / 4, end - (end - begin) / 4];
  await setRange(shown, () => [from, to]);
  const overlapping = requests.filter(([, begin, end]) => begin <= to && end >= from).map(([id]) => String(id));
  assert(overlapping.length > 0 && overlapping.length < requests.length, `${overlapping}`);
  assert.deepEqual((await listed()).sort(), overlapping.sort());
  await shown.context().close();
});

test('all of it can be done by the keyboard alone', async () => {
  const alone = await opened('run.html');
  const isFocused = (selector) => alone.evaluate((selector) => document.activeElement.matches(selector), selector);
  const tabTo = async (selector) => {
    for (let tabs = 0; tabs < 120 && !(await isFocused(selector)); tabs += 1) await alone.keyboard.press('Tab');
    assert(await isFocused(selector), `Tab leads to ${selector}`);
  };
  await tabTo('.place canvas');
  await alone.keyboard.press('ArrowDown');
  await alone.waitForFunction(() => globalThis.vicusView.timeline.chosen);
  await alone.waitForSelector('.told h3');
  await alone.keyboard.press('Escape');
  await alone.keyboard.press('w');
  await alone.keyboard.press('r');
  await alone.waitForFunction(() => document.querySelector('.range [role=status]')?.textContent.includes('The tables'));
  const [range, window] = await timeline((t) => [t.range, t.window], alone);
  assert.deepEqual(range, window);
  await alone.keyboard.press('Escape');
  assert.equal(await timeline((t) => t.range, alone), null);
  await tabTo('.network .box');
  await alone.keyboard.press('Enter');
  assert.equal(await timeline((t) => t.mark.kind, alone), 'key');
  await tabTo('.floor .seat');
  await alone.keyboard.press('Enter');
  assert.equal(await timeline((t) => t.mark.kind, alone), 'seat');
  // A line of the plan, behind the cores; then backwards to the tables.
  await alone.keyboard.press('Escape');
  await tabTo('.plan span');
  await alone.keyboard.press('ArrowDown');
  const line = await alone.evaluate(() => {
    const { seat, rule } = document.activeElement.dataset;
    return { seat, rule, isSecond: document.activeElement === document.querySelectorAll('.plan span[tabindex]')[1] };
  });
  assert(line.isSecond);
  await alone.keyboard.press('Enter');
  const marked = await timeline((t) => t.mark, alone);
  assert.equal(marked.kind, line.rule === undefined ? 'seat' : 'rule');
  const tables = { requests: 'request', vias: 'via', seats: 'seat', boxes: 'type', operators: 'key' };
  for (const [name, kind] of Object.entries(tables)) {
    const rows = `#r0-${name}`;
    const isThere = `${rows} tbody tr[tabindex="0"]`;
    for (let tabs = 0; tabs < 200 && !(await isFocused(isThere)); tabs += 1) await alone.keyboard.press('Shift+Tab');
    assert(await isFocused(isThere), rows);
    if ((await alone.locator(`${rows} tbody tr`).count()) > 1) await alone.keyboard.press('ArrowDown');
    const row = await alone.evaluate(() => ({ ...document.activeElement.dataset }));
    await alone.keyboard.press('Escape');
    await alone.keyboard.press('Enter');
    assert.deepEqual(await timeline((t) => t.mark, alone), { kind, id: Number(row[kind].split(' ')[0]), run: 0 });
    assert.equal(await alone.evaluate(() => document.activeElement.classList.contains('marked')), true);
  }
  await alone.context().close();
});

test('two runs stand on one scale, with differences by box', async () => {
  vicus('trace', 'view', file('run.trace'), file('alone.trace'), '-o', file('two.html'));
  const two = await opened('two.html');
  assert.deepEqual(await timeline((t) => t.rows.filter(({ level }) => level === 0).map(({ run }) => run), two), [0, 1]);
  const rows = await table('differences-boxes', two);
  const alone = JSON.parse(vicus('trace', 'summary', file('alone.trace'), '--format', 'json'));
  const join = (summary) => summary.boxes.find((box) => box.type_name === 'distinct');
  const row = rows.find(({ type }) => type === 'distinct');
  assert.deepEqual([row['busy ms A'], row['busy ms B']], [ms(join(summary).busy_ns), ms(join(alone).busy_ns)]);
  assert.equal(row['work inflation'], (join(summary).busy_ns / join(alone).busy_ns).toFixed(2));
  // The differences of a range as well; those of all of it are the same.
  const whole = await table('differences-boxes', two);
  await setRange(two, (span) => [0, span]);
  assert.deepEqual(await table('differences-boxes', two), whole);
  await setRange(two, (span) => [0, span / 3]);
  const part = await table('differences-boxes', two);
  assert(part.every((row, at) => Number(row['busy ms A']) <= Number(whole[at]['busy ms A'])));
  assert.notDeepEqual(part, whole);
  await picture('two', two);
  await two.context().close();
});

test('a trace that was cut off or is of another version is shown as far as it goes', async () => {
  const whole = readFileSync(file('run.trace'));
  writeFileSync(file('cut.trace'), whole);
  truncateSync(file('cut.trace'), Math.floor(statSync(file('cut.trace')).size * 0.8));
  const later = Buffer.from(whole);
  later[8] = 9;
  writeFileSync(file('later.trace'), later);
  for (const [name, text] of [
    ['cut', /a truncated trace: it ends at byte/],
    ['later', /a trace of version 9/],
  ]) {
    vicus('trace', 'view', file(`${name}.trace`), '-o', file(`${name}.html`));
    const shown = await opened(`${name}.html`);
    assert.match(await shown.locator('header').innerText(), text);
    await shown.context().close();
  }
});

test('a trace with impossible orders and times is shown, with what is wrong in the head', async () => {
  const broken = readFileSync(file('run.trace'));
  const first = 16 + broken.readUInt32LE(12) + 8;
  // Times and orders that go back, an event of another kind, and the time of the distant future.
  const event = (number) => first + number * 32;
  broken.writeBigUInt64LE(0n, event(20) + 8);
  broken.writeBigUInt64LE(0n, event(40));
  broken[event(60) + 16] = 1;
  broken.writeBigUInt64LE(2n ** 62n, event(80));
  writeFileSync(file('broken.trace'), broken);
  vicus('trace', 'view', file('broken.trace'), '-o', file('broken.html'));
  const shown = await opened('broken.html');
  const head = await shown.locator('header').innerText();
  assert.match(head, /\d+ impossible events?/);
  assert((await shown.locator('.violations li').count()) > 0);
  await shown.locator('.place canvas').focus();
  for (const key of ['w', 'w', 'd', 'f', 'b', 'c', 'b', 'ArrowDown', '.']) await shown.keyboard.press(key);
  await setRange(shown, (span) => [0, span]);
  assert((await table('r0-boxes', shown)).length > 0);
  await shown.context().close();
});

/// The picture of the time line by a grid of 48 × 16 mean colours: fonts differ from system to system, what is where does not.
const gridOf = (of) =>
  of.evaluate(() => {
    const { canvas } = globalThis.vicusView.timeline;
    const [columns, rows] = [48, 16];
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const sums = Array.from({ length: columns * rows }, () => [0, 0, 0, 0]);
    for (let y = 0; y < canvas.height; y += 1) {
      for (let x = 0; x < canvas.width; x += 1) {
        const at = 4 * (y * canvas.width + x);
        const sum = sums[Math.floor((y * rows) / canvas.height) * columns + Math.floor((x * columns) / canvas.width)];
        for (let part = 0; part < 3; part += 1) sum[part] += (data[at + part] * data[at + 3]) / 255;
        sum[3] += 1;
      }
    }
    return sums.flatMap(([r, g, b, count]) => [r, g, b].map((sum) => Math.round(sum / count)));
  });

test('the pictures of a made-up run are the kept ones, within a tolerance', async () => {
  const { file: hex } = JSON.parse(readFileSync(new URL('fixture.json', import.meta.url)));
  writeFileSync(file('made.trace'), Buffer.from(hex, 'hex'));
  vicus('trace', 'view', file('made.trace'), '-o', file('made.html'));
  const made = await opened('made.html');
  const path = new URL('pictures.json', import.meta.url);
  const kept = existsSync(path) ? JSON.parse(readFileSync(path)) : {};
  const found = {};
  const drawn = async (name, keys) => {
    for (const key of keys) await made.keyboard.press(key);
    // All slices are here, and they are drawn: a picture is asked for once more, and that comes behind the others.
    await made.waitForFunction(() => [...globalThis.vicusView.timeline.slices.values()].every(Boolean));
    const before = await timeline((t) => (t.redraw(), t.drawn), made);
    await made.waitForFunction((before) => globalThis.vicusView.timeline.drawn > before, before);
    await made.waitForFunction(() => [...globalThis.vicusView.timeline.slices.values()].every(Boolean));
    found[name] = await gridOf(made);
    await picture(`made-${name}`, made);
  };
  await made.locator('.place canvas').focus();
  await drawn('cores', ['f']);
  await drawn('chain', ['c']);
  await drawn('boxes', ['c', 'b']);
  await made.getByRole('button', { name: 'Memory wait' }).click();
  await made.locator('.place canvas').focus();
  await drawn('memory', ['b']);
  await drawn('zoomed', ['w', 'w', 'w', 'd', 'd']);
  await made.context().close();
  if (process.env.WRITE_PICTURES) writeFileSync(path, `${JSON.stringify(found)}\n`);
  const differ = (one, other) => {
    const off = one.map((value, at) => Math.abs(value - other[at]));
    return { mean: off.reduce((sum, value) => sum + value, 0) / off.length, most: Math.max(...off) };
  };
  for (const [name, grid] of Object.entries(found)) {
    const { mean, most } = differ(grid, (process.env.WRITE_PICTURES ? found : kept)[name]);
    assert(mean < 3 && most < 60, `${name}: ${mean.toFixed(2)} off on average, ${most} at most`);
  }
  // Other pictures would not pass.
  for (const [one, other] of [['cores', 'boxes'], ['cores', 'memory'], ['memory', 'zoomed']])
    assert(differ(found[one], found[other]).mean > 3, `${one} and ${other}: ${differ(found[one], found[other]).mean}`);
});

test('it is readable in the dark and on a phone', async () => {
  const other = isFirefox ? await launched({ 'ui.systemUsesDarkTheme': 1 }) : browser;
  const dark = await opened('run.html', isFirefox ? {} : { colorScheme: 'dark' }, other);
  await picture('dark', dark);
  const background = await dark.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert(
    background.match(/\d+/g).every((part) => Number(part) < 60),
    background,
  );
  await dark.context().close();
  if (isFirefox) await other.close();
  const phone = await opened('run.html', { viewport: { width: 360, height: 740 }, hasTouch: true });
  await picture('phone', phone);
  const { scroll, inner } = await phone.evaluate(() => ({
    scroll: document.documentElement.scrollWidth,
    inner: innerWidth,
  }));
  assert(scroll <= inner, `${scroll} pixels wide on ${inner}`);
  await phone.context().close();
});

/// Runs the program, and tells the most memory that it had, as far as looking at it every few milliseconds shows.
function peakOf(...args) {
  const child = spawn(process.env.VICUS, args, { stdio: 'inherit' });
  let most = 0;
  const look = setInterval(() => {
    try {
      const [, kib] = /VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? [0, 0];
      most = Math.max(most, Number(kib) * 1024);
    } catch {
      // It has ended.
    }
  }, 5);
  return new Promise((done, failed) => {
    child.on('exit', (code) => {
      clearInterval(look);
      if (code === 0) done(most);
      else failed(new Error(`it ended with ${code}`));
    });
  });
}

/// The tables of a page, and the same of the whole range as the viewer sums it up.
async function isTheSameAsSummedUp(of) {
  const names = ['boxes', 'seats', 'chain'];
  const shown = () => Promise.all(names.map((name) => table(`r0-${name}`, of)));
  const figures = () => of.$$eval('#r0-why .figure b', (all) => all.map(({ textContent }) => textContent));
  const before = [await shown(), await figures()];
  await setRange(of, (span) => [0, span]);
  const [tables, numbers] = [await shown(), await figures()];
  // What was lost is known of the whole run alone.
  before[0][1].forEach((row, at) => (row.lost = tables[1][at].lost));
  assert.deepEqual([tables, numbers], before);
  await of.getByRole('button', { name: 'Clear' }).click();
}

/// The library `libvicus_omp.so` beside the program; undefined if it is not built, or there is no clang.
function compiledForOpenMp(source, program) {
  const library = join(dirname(process.env.VICUS), 'libvicus_omp.so');
  const clang = ['clang', ...[22, 21, 20, 19, 18, 17, 16, 15, 14].map((version) => `clang-${version}`)]
    .map((name) => `/usr/bin/${name}`)
    .find(existsSync);
  if (!existsSync(library) || !clang) return false;
  const object = `${program}.o`;
  execFileSync(clang, ['-g', '-fopenmp', '-O1', '-c', source, '-o', object]);
  execFileSync('cc', ['-rdynamic', object, library, `-Wl,-rpath,${dirname(library)}`, '-o', program]);
  return true;
}

/// Clicks the longest slice of a kind of work, and gives what is told of it.
async function explained(of, name) {
  await of.evaluate((name) => {
    const { vicusView } = globalThis;
    const { timeline } = vicusView;
    const key = timeline.runs[0].keys.findIndex((key) => key.name === name);
    let best = { ns: 0 };
    for (const [chunkName, slices] of timeline.slices) {
      const [run, chunk] = chunkName.split('.').map(Number);
      slices?.begin.forEach((begin, at) => {
        const ns = slices.end[at] - begin;
        if (slices.state[at] === 1 && slices.key[at] === key && ns > best.ns) best = { ns, run, chunk, slices, at };
      });
    }
    const { run, chunk, slices, at } = best;
    return vicusView.choose(timeline.sliceOf(run, timeline.runs[run].chunks[chunk][0], chunk, slices, at));
  }, name);
  await of.waitForSelector('.told h3');
  return of.locator('.story').innerText();
}

test('an OpenMP program: its barriers, groups and waits are told apart, and what a task waited for', async (t) => {
  const source = fileURLToPath(new URL('tasks.c', import.meta.url));
  if (!compiledForOpenMp(source, file('tasks'))) {
    t.skip('clang or libvicus_omp.so is missing');
    return;
  }
  execFileSync(file('tasks'), { env: { ...process.env, VICUS_TRACE: file('tasks.trace'), OMP_NUM_THREADS: '2' } });
  vicus('trace', 'view', file('tasks.trace'), '-o', file('tasks.html'));
  const shown = await opened('tasks.html');
  await isTheSameAsSummedUp(shown);
  const rows = await table('r0-boxes', shown);
  const tasks = rows.filter(({ type }) => type.includes('task_entry'));
  // The tasks spin for 5, 4, 3 and 1 ms, longer where others have the core meanwhile.
  const busy = tasks.map((row) => Number(row['busy ms'])).sort((a, b) => b - a);
  assert(busy.length === 4 && [5, 4, 3, 1].every((least, at) => busy[at] >= least), `${busy}`);
  const region = rows.find(({ type }) => type.includes('outlined'));
  const waited = (name) => Number(region[name]);
  // The taskwait is over when the second of two tasks in a row is, 7 ms later, unless the members share the work;
  // the group, whose inner task spins for 5 ms, at the earliest 5 ms later; and a member works for 6 ms before the barrier, at
  // which the other one waits for as long as it runs beside it.
  assert(waited('at barriers ms') > 0, JSON.stringify(region));
  assert(waited('waits for a group ms') > 0 || waited('waits for its tasks ms') > 0, JSON.stringify(region));
  // The longest chain: 4 + 3 of the tasks in a row, 5 of the group's inner one, 6 of the late member, and 1 behind the barrier.
  const figures = await shown.$$eval('#r0-why .figure', (all) =>
    Object.fromEntries(all.map((figure) => [figure.querySelector('span').textContent, figure.querySelector('b').textContent])),
  );
  const [chain, length] = ['longest chain', 'length'].map((name) => Number(figures[name].replace(' ms', '')));
  assert(chain >= 19 && chain <= length, `a chain of ${chain} ms in ${length} ms`);
  // Of the four tasks, two are ordered by data, and one of these followed the other.
  const stories = new Map();
  for (const { type } of tasks) stories.set(type, await explained(shown, type));
  const ordered = [...stories].filter(([, story]) => /Its data orders it: it (reads|writes).* 1 byte from 0x/.test(story));
  assert.equal(ordered.length, 2, [...stories.values()].join('\n\n'));
  const [[second, story], ...others] = ordered.filter(([, story]) => story.includes('It could begin at the end of '));
  assert.equal(others.length, 0);
  const [first] = ordered.map(([type]) => type).filter((type) => type !== second);
  assert.match(story, /_outlined.* \(task \d+\) spawned it/);
  assert(story.includes(`It could begin at the end of ${first} (task `), story);
  await picture('openmp', shown);
  await shown.context().close();
});

test('lightweight threads: how long one was put aside', async () => {
  // Recorded of one that works for 2 ms, reads an empty word, and works for 3 ms; another one works for 7 ms, fills the word, and
  // works for 1 ms. Their spawner waits for both.
  const { file: hex } = JSON.parse(readFileSync(new URL('threads.json', import.meta.url)));
  writeFileSync(file('threads.trace'), Buffer.from(hex, 'hex'));
  vicus('trace', 'view', file('threads.trace'), '-o', file('threads.html'));
  const shown = await opened('threads.html');
  await isTheSameAsSummedUp(shown);
  const rows = await table('r0-boxes', shown);
  // Three threads with the spawner, however often each is put aside, and 13 ms of work.
  const [threads] = rows;
  assert.deepEqual([rows.length, threads.type, threads.invocations], [1, '(task)', '3']);
  assert(Number(threads['busy ms']) >= 13 && Number(threads['busy ms']) < 15, threads['busy ms']);
  // The reader's second part begins when the word is full: 5 ms behind its first one.
  await shown.evaluate(() => {
    const { vicusView } = globalThis;
    const { timeline } = vicusView;
    const chunk = timeline.runs[0].chunks.findIndex(([seat]) => seat === 1);
    const slices = timeline.slices.get(`0.${chunk}`);
    vicusView.choose(timeline.sliceOf(0, 1, chunk, slices, slices.state.lastIndexOf(1)));
  });
  await shown.waitForSelector('.told h3');
  const story = await shown.locator('.story').innerText();
  const [, waited] = /put aside, for ([\d.]+) ms/.exec(story) ?? [story, NaN];
  assert(waited >= 5 && waited < 6, story);
  assert.equal((await table('r0-seats', shown)).length, await timeline((t) => t.runs[0].header.seats.length, shown));
  await shown.context().close();
});

test('the colours of waits differ by their light, in the light and in the dark', async () => {
  const light = async (of) => {
    const colours = await timeline((t) => ['waits', 'group', 'barrier', 'lane'].map((name) => t.colours[name]), of);
    // The relative luminance of WCAG 2.
    return colours.map((colour) => {
      const [r, g, b] = colour.match(/\d+/g).map((part) => {
        const share = Number(part) / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    });
  };
  for (const colorScheme of isFirefox ? ['light'] : ['light', 'dark']) {
    const of = await opened('run.html', isFirefox ? {} : { colorScheme });
    const all = await light(of);
    for (const [at, one] of all.entries()) {
      for (const other of all.slice(at + 1)) {
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        assert(contrast >= 1.5, `${colorScheme}: ${contrast.toFixed(2)} of ${all}`);
      }
    }
    await of.context().close();
  }
});

test('a finger measures what is seen', async () => {
  const phone = await opened('run.html', { viewport: { width: 360, height: 740 }, hasTouch: true });
  // The driver's finger reaches nothing in Firefox.
  for (const name of ['Zoom in', 'Measure']) {
    const button = phone.getByRole('button', { name });
    await (isFirefox ? button.click() : button.tap());
  }
  await phone.waitForFunction(() => document.querySelector('.range [role=status]')?.textContent.includes('The tables'));
  const [range, window] = await timeline((t) => [t.range, t.window], phone);
  assert.deepEqual(range, window);
  assert(range[1] - range[0] < (await timeline((t) => t.span, phone)));
  await phone.context().close();
});

test('a page of ten million events is small, and so is the work for a picture', async () => {
  // Firefox, which takes longer to read a file, gets a tenth.
  const wanted = isFirefox ? 1_000_000 : 10_000_000;
  const once = repeat(file('run.trace'), file('large.trace'), 1);
  const events = repeat(file('run.trace'), file('large.trace'), Math.ceil(wanted / once));
  assert(events >= wanted);
  const most = await peakOf('trace', 'view', file('large.trace'), '-o', file('large.html'));
  rmSync(file('large.trace'));
  const bytes = statSync(file('large.html')).size;
  assert(bytes <= (60e6 / 10e6) * wanted, `${bytes} bytes`);
  assert(most > bytes && most <= 100 * events + 100e6, `${most} bytes of memory`);
  const large = await opened('large.html', { isLarge: true });
  // The first picture is from sums: events were unpacked for seats that have few alone.
  const unpackedFirst = await timeline((t) => t.slices.size, large);
  assert(unpackedFirst * 32_768 < wanted / 3, `${unpackedFirst} chunks`);
  await large.evaluate(() => {
    const { prototype } = CanvasRenderingContext2D;
    const { fillRect } = prototype;
    globalThis.marks = 0;
    prototype.fillRect = function counted(...where) {
      globalThis.marks += 1;
      return fillRect.apply(this, where);
    };
  });
  await large.locator('.place canvas').focus();
  let [frames, unpacked] = [0, 0];
  for (const key of ['w', 'w', 'w', 'd', 'w', 'w', 'a', 'w', 'w', 'w', 'w', 'd', 'd', 's', 'w', 'w', 'w', 'w', 'w', 'w', 'f', 'b', 'b']) {
    const [drawn] = await large.evaluate(() => {
      globalThis.marks = 0;
      return [globalThis.vicusView.timeline.drawn];
    });
    await large.keyboard.press(key);
    await large.waitForFunction((drawn) => globalThis.vicusView.timeline.drawn > drawn, drawn);
    const told = await timeline((t) => ({ marks: globalThis.marks, drawn: t.drawn, rows: t.rows.length, plot: t.plot, slices: t.slices.size }), large);
    const each = told.marks / (told.drawn - drawn);
    // Four marks for a pixel of a row at most, and one for a pixel of the overview.
    assert(each <= (4 * told.rows + 1) * told.plot + 500, `${key}: ${each} marks in a picture`);
    frames += told.drawn - drawn;
    unpacked = Math.max(unpacked, told.slices);
  }
  assert(frames > 10 && unpacked > 0 && unpacked <= 40, `${unpacked} chunks unpacked in ${frames} pictures`);
  const heap = await large.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  assert(heap < 400e6, `${heap} bytes of JavaScript`);
  assert((await large.evaluate(() => document.getElementsByTagName('*').length)) < 20_000);
  await large.context().close();
  rmSync(file('large.html'));
});

test('nothing was asked for, and nothing went wrong', () => {
  const others = requests.filter((url) => !url.startsWith('file:///') && !url.startsWith('blob:'));
  assert.deepEqual(others, []);
  assert.deepEqual(
    requests.filter((url) => url.startsWith('file:') && !/\.html(#.*)?$/.test(url)),
    [],
  );
  assert.deepEqual(complaints, []);
});
