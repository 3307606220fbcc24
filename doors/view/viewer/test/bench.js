// How fast a page is written and looked at: `./dev bench view`, or `node test/bench.js [--events N] [--rounds R]`.
//
//   VICUS           the program `vicus`
//   CHROMIUM        the browser; without it, Debian's `chromium` or `chromium-headless-shell`
//
// It writes a query's recording again and again, up to N events, makes the page of it R times, and opens it R times.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { repeat } from './repeated.js';

const QUERY = `PREFIX swrc: <http://swrc.ontoware.org/ontology#>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
SELECT DISTINCT ?one ?other { ?a swrc:journal ?j ; dc:title ?one . ?b swrc:journal ?j ; dc:title ?other FILTER(?one < ?other) }
`;
/// The frames of a way of moving that are timed.
const FRAMES = 240;

const { values } = parseArgs({ options: { events: { type: 'string', default: '10000000' }, rounds: { type: 'string', default: '5' } } });
const [wanted, rounds] = [Number(values.events), Number(values.rounds)];
assert(wanted >= 1 && rounds >= 1, 'numbers of events and of rounds');
const { VICUS } = process.env;
assert(VICUS, 'VICUS names the program');
const executablePath =
  process.env.CHROMIUM ?? ['chromium', 'chromium-headless-shell'].map((name) => `/usr/bin/${name}`).find(existsSync);
assert(executablePath, 'Chromium is installed');

const folder = mkdtempSync(join(tmpdir(), 'vicus-bench-view-'));
const file = (name) => join(folder, name);
const vicus = (...args) => execFileSync(VICUS, args, { encoding: 'utf8' });
const sorted = (all) => [...all].sort((a, b) => a - b);
const at = (all, share) => sorted(all)[Math.min(all.length - 1, Math.floor(all.length * share))];
const say = (what, text) => console.log(`${what.padEnd(16)}${text}`);

/// When the page's first picture with data of the run was drawn, in milliseconds since its address was given.
function watchFirstPicture() {
  const look = () => {
    // The frame of this call has what was drawn before it.
    if (globalThis.vicusView?.timeline.hasData) globalThis.firstPictureMs = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/// The milliseconds from frame to frame while the window moves, and those of each drawing.
function moved({ frames, how }) {
  const { timeline } = globalThis.vicusView;
  return new Promise((done) => {
    const gaps = [];
    let [before, number] = [performance.now(), 0];
    const frame = () => {
      const now = performance.now();
      gaps.push(now - before);
      before = now;
      number += 1;
      if (number > frames) {
        done(gaps.slice(1));
        return;
      }
      // In and out again by a factor of some 4,000; or from one side to the other and back.
      const isBack = Math.floor(number / (frames / 4)) % 2;
      if (how === 'zoom') timeline.zoom(isBack ? 1.15 : 1 / 1.15, timeline.span * 0.4);
      else timeline.pan(isBack ? -0.05 : 0.05);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

try {
  vicus('generate', 'sp2b', '--triples', '20000', '--output', file('sp2b.nt'));
  writeFileSync(file('slow.rq'), QUERY);
  vicus('query', '--data', file('sp2b.nt'), '--query', file('slow.rq'), '--format', 'count', '--trace', file('run.trace'), '--threads', '2');
  const once = repeat(file('run.trace'), file('large.trace'), 1);
  const events = repeat(file('run.trace'), file('large.trace'), Math.ceil(wanted / once));
  const seconds = [];
  for (let round = 0; round < rounds; round += 1) {
    const begin = process.hrtime.bigint();
    vicus('trace', 'view', file('large.trace'), '-o', file('large.html'));
    seconds.push(Number(process.hrtime.bigint() - begin) / 1e9);
  }
  const mb = (name) => `${(statSync(file(name)).size / 1e6).toFixed(1)} MB`;
  say('events', `${events}: ${mb('large.trace')} of trace, ${mb('large.html')} of page`);
  const [middle, most] = [at(seconds, 0.5), at(seconds, 0)];
  say('trace view', `${(events / middle / 1e6).toFixed(2)} million events a second: ${middle.toFixed(2)} s, the median of ${rounds}; ${most.toFixed(2)} s at best`);

  const firsts = [];
  for (let round = 0; round < rounds; round += 1) {
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
    await page.addInitScript(watchFirstPicture);
    await page.goto(`file://${file('large.html')}`, { waitUntil: 'commit' });
    await page.waitForFunction(() => globalThis.firstPictureMs);
    firsts.push(await page.evaluate(() => globalThis.firstPictureMs));
    if (round === rounds - 1) {
      say('first picture', `${(at(firsts, 0.5) / 1000).toFixed(2)} s, the median of ${rounds}; ${(at(firsts, 0.99) / 1000).toFixed(2)} s at most`);
      await page.waitForFunction(() => document.readyState === 'complete');
      for (const how of ['zoom', 'pan']) {
        if (how === 'pan') await page.evaluate(() => globalThis.vicusView.timeline.setWindow(0, globalThis.vicusView.timeline.span / 20));
        const gaps = await page.evaluate(moved, { frames: FRAMES, how });
        const [median, slow] = [at(gaps, 0.5), at(gaps, 0.95)];
        say(how, `${(1000 / median).toFixed(0)} frames a second: ${median.toFixed(1)} ms a frame in the median, ${slow.toFixed(1)} ms for one in twenty`);
      }
    }
    await browser.close();
  }
  say('load', `${loadavg()[0].toFixed(1)} in the last minute; a quiet machine has about 2, which are these programs`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
