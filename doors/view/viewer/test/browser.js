// Pages of `vicus trace view` in a real browser, opened from the disk: `node --test test/browser.js`.
//
//   VICUS           the program `vicus`
//   CHROMIUM        the browser; without it, Debian's `chromium` or `chromium-headless-shell`
//   SCREENSHOTS     a folder for pictures; without it none are taken

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
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
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const QUERY = `PREFIX swrc: <http://swrc.ontoware.org/ontology#>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
SELECT DISTINCT ?one ?other { ?a swrc:journal ?j ; dc:title ?one . ?b swrc:journal ?j ; dc:title ?other FILTER(?one < ?other) }
`;

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
  const executablePath =
    process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-headless-shell'].find(existsSync);
  assert(executablePath, 'a Chromium is installed');
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  page = await opened('run.html');
});

after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

async function opened(name, options = {}) {
  const { hash = '', isLarge, ...more } = options;
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, acceptDownloads: true, ...more });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on('request', (request) => requests.push(request.url()));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  await page.goto(`file://${file(name)}${hash}`);
  if (options.javaScriptEnabled !== false) {
    await page.waitForFunction(() => globalThis.vicusView?.timeline.drawn > 0);
    await page.waitForFunction((isLarge) => {
      const { slices, levels } = globalThis.vicusView.timeline;
      return [...(isLarge ? levels : slices).values()].some(Boolean);
    }, Boolean(isLarge));
  }
  return page;
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
  }
}

test('the tables have the figures of the summary, without a script as well', async () => {
  compareBoxes(await table('r0-boxes'));
  compareSeats(await table('r0-seats'));
  const plain = await opened('run.html', { javaScriptEnabled: false });
  compareBoxes(await table('r0-boxes', plain));
  assert.equal(await plain.locator('#view').isVisible(), false);
  assert.match(await plain.locator('header').innerText(), /every event is allowed where it stands/);
  assert.match(await plain.locator('header').innerText(), /command\s*\S*vicus query/);
  await plain.context().close();
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
  const [download] = await Promise.all([many.waitForEvent('download'), many.click('button.save')]);
  await download.saveAs(file('many.trace'));
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
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('button.save')]);
  await download.saveAs(file('saved.trace'));
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

test('it is readable in the dark and on a phone', async () => {
  const dark = await opened('run.html', { colorScheme: 'dark' });
  await picture('dark', dark);
  const background = await dark.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert(
    background.match(/\d+/g).every((part) => Number(part) < 60),
    background,
  );
  await dark.context().close();
  const phone = await opened('run.html', { viewport: { width: 360, height: 740 }, hasTouch: true });
  await picture('phone', phone);
  const { scroll, inner } = await phone.evaluate(() => ({
    scroll: document.documentElement.scrollWidth,
    inner: innerWidth,
  }));
  assert(scroll <= inner, `${scroll} pixels wide on ${inner}`);
  await phone.context().close();
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
