// The requests that run at the server, each with a button that stops it.

import * as api from './api.js';
import { announce, h, icon, replace, toast } from './dom.js';
import { bytes, count, duration } from './format.js';
import { LANGUAGES } from './languages.js';

const EVERY_MS = 1000;

export class Requests {
  /// `onExplain(id)` opens the plan of a request.
  constructor(parent, { onExplain }) {
    this.onExplain = onExplain;
    this.state = h('span', { class: 'quiet', role: 'status' }, 'Asking…');
    this.body = h('tbody');
    this.empty = h(
      'p',
      { class: 'empty', hidden: true },
      'Nothing runs. Queries from any client show up here while they wait or run.',
    );
    this.table = h(
      'table',
      { class: 'requests', 'aria-label': 'Running requests' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ['Request', 'State', 'Elapsed', 'Rows', 'Memory', ''].map((text, at) =>
            h(
              'th',
              { scope: 'col', class: at > 1 && at < 5 ? 'number' : null },
              text || h('span', { class: 'sr-only' }, 'Actions'),
            ),
          ),
        ),
      ),
      this.body,
    );
    replace(
      parent,
      h('header', { class: 'view-head' }, h('h1', {}, 'Requests'), this.state),
      h('div', { class: 'card flush' }, this.table, this.empty),
    );
    this.lines = new Map();
  }

  open() {
    this.close();
    this.aborter = new AbortController();
    this.#follow(this.aborter.signal);
  }

  close() {
    this.aborter?.abort();
    this.aborter = null;
  }

  async #follow(signal) {
    while (!signal.aborted) {
      try {
        this.#render(await api.requests(signal));
      } catch (error) {
        if (signal.aborted) return;
        this.state.textContent = `No list: ${error.message}`;
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }

  #render(requests) {
    const running = requests.filter(({ state }) => state !== 'waiting').length;
    this.state.textContent = `${running} running, ${requests.length - running} waiting`;
    this.empty.hidden = requests.length > 0;
    this.table.hidden = requests.length === 0;
    const left = new Set(this.lines.keys());
    for (const request of requests) {
      left.delete(request.id);
      if (!this.lines.has(request.id)) this.lines.set(request.id, this.#line(request));
      const line = this.lines.get(request.id);
      line.state.textContent = request.state;
      line.state.className = `state ${request.state}`;
      line.elapsed.textContent = duration(request.elapsedMs);
      line.rows.textContent = count(request.rows);
      line.memory.textContent = bytes(request.memoryBytes);
    }
    for (const id of left) {
      this.lines.get(id).row.remove();
      this.lines.delete(id);
    }
  }

  #line(request) {
    const line = {
      state: h('span'),
      elapsed: h('td', { class: 'number' }),
      rows: h('td', { class: 'number' }),
      memory: h('td', { class: 'number' }),
    };
    const stop = h(
      'button',
      {
        type: 'button',
        class: 'button small danger',
        'aria-label': `Stop request ${request.id}`,
        onClick: () => this.#stop(request.id, stop),
      },
      icon('stop'),
      'Stop',
    );
    const plan = h(
      'button',
      {
        type: 'button',
        class: 'button small',
        'aria-label': `Plan of request ${request.id}`,
        onClick: () => this.onExplain(request),
      },
      icon('tree'),
      'Plan',
    );
    line.row = h(
      'tr',
      { 'data-id': request.id },
      h(
        'td',
        { class: 'request-text' },
        h(
          'code',
          { title: request.text },
          request.text
            .replace(/^\s*(PREFIX|BASE)[^\n]*\n?/gim, '')
            .replace(/\s+/g, ' ')
            .trim()
            .slice(0, 240) || request.text,
        ),
        h(
          'span',
          { class: 'request-meta quiet' },
          `${request.kind} · ${LANGUAGES[request.language]?.title ?? ''} · ${request.id}`,
          request.mine && h('span', { class: 'tag' }, 'mine'),
        ),
      ),
      h('td', {}, line.state),
      line.elapsed,
      line.rows,
      line.memory,
      h('td', { class: 'actions' }, plan, stop),
    );
    this.body.append(line.row);
    return line;
  }

  async #stop(id, button) {
    button.disabled = true;
    try {
      await api.stop(id);
      announce(`Request ${id} was stopped`);
    } catch (error) {
      button.disabled = false;
      if (error.status !== 404) toast(error.message, { kind: 'bad' });
    }
  }
}
