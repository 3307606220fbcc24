// One run of a text: asks what it is, sends it, reads its rows while they come, and follows its plan.
//
// It is an EventTarget: "change" after anything changed (many a second while rows come), "plan" for a new plan,
// of which the last may come after the end, "end" once at the end.

import * as api from './api.js';
import { ResultsParser } from './json-stream.js';
import { TriplesParser } from './ntriples.js';

/// At most so many rows are kept, whatever the server sends.
export const MAX_ROWS = 100_000;
/// Of the answer's own text this much is kept for the raw view.
const MAX_RAW = 256 * 1024;

export class Run extends EventTarget {
  constructor({ text, language, limit, timeout, trace }) {
    super();
    Object.assign(this, { text, language, limit: Math.min(limit, MAX_ROWS), timeout, wantsTrace: trace });
    this.id = api.newId();
    /// "checking", "waiting" (sent, no answer yet), "reading", "done", "failed", "cancelled".
    this.state = 'checking';
    this.wasSent = false;
    this.form = null;
    this.columns = [];
    this.rows = [];
    /// Rows that came, kept or not.
    this.received = 0;
    this.limited = false;
    this.boolean = null;
    /// What the server's check remarks on the text, `{text, always}`: likely slips.
    this.remarks = [];
    this.updated = null;
    this.raw = '';
    this.bytes = 0;
    this.error = null;
    this.plan = null;
    /// What the server said of the end: `{state, message}`.
    this.ended = null;
    this.planOnly = false;
    this.startedAt = performance.now();
    this.firstRowMs = null;
    this.elapsedMs = null;
    this.aborter = new AbortController();
  }

  get isOver() {
    return this.state === 'done' || this.state === 'failed' || this.state === 'cancelled';
  }

  get isGraph() {
    return this.form === 'construct' || this.form === 'describe';
  }

  /// Runs to the end; never throws. `form` is what the server's check said, or null where it could not be asked.
  async run(form) {
    this.wasSent = true;
    this.form = form ?? guessForm(this.text, this.language);
    this.state = 'waiting';
    this.#tell('change');
    const watching = new AbortController();
    const watched = this.form === 'update' ? null : this.#watch(watching.signal);
    try {
      if (this.form === 'update') await this.#update();
      else await this.#query();
      this.#end('done');
    } catch (error) {
      // A connection that broke says nothing of the reason; the watch does.
      if (this.state === 'reading' && error.name !== 'AbortError') await within(1500, watched);
      this.#fail(error);
    }
    this.#tell('end');
    // The last plan comes with the end of the watch; a server that does not send it is asked once. A query that was refused has none.
    const began = watched && !this.error?.status;
    if (began) await within(1500, watched);
    watching.abort();
    if (began && (!this.plan || this.plan.state === 'running' || this.plan.state === 'planned')) await this.#lastPlan();
  }

  /// Asks for the plan and does not run the text.
  async explain() {
    this.planOnly = true;
    this.state = 'waiting';
    this.#tell('change');
    try {
      this.plan = await api.planOnly(this, this.aborter.signal);
      this.form = this.plan.form;
      this.#end('done');
      this.#tell('plan');
    } catch (error) {
      this.#fail(error);
    }
    this.#tell('end');
  }

  /// A failure before anything was sent, such as one that the check found.
  refuse(error) {
    this.#fail(error);
    this.#tell('end');
  }

  /// Stops the request: the connection is closed, and the server is told, because a proxy may keep it open.
  stop() {
    if (this.isOver) return;
    this.aborter.abort();
    if (!this.planOnly && this.state !== 'checking') api.stop(this.id).catch(() => {});
  }

  async #update() {
    this.updated = await api.update(this, this.aborter.signal);
  }

  async #query() {
    const accept = this.isGraph
      ? 'application/n-triples, application/json;q=0.1'
      : 'application/sparql-results+json, application/json;q=0.5';
    const { text, language, id, limit, timeout, wantsTrace: trace } = this;
    const response = await api.query({ text, language, accept, id, trace, limit, timeout }, this.aborter.signal);
    this.id = response.headers.get('Vicus-Request-Id') ?? this.id;
    const bound = Number(response.headers.get('Vicus-Rows-Limited')) || null;
    const parser = this.#parser(response.headers.get('Content-Type') ?? '');
    this.state = 'reading';
    await api.readText(response, (text, bytes) => {
      this.bytes = bytes;
      if (this.raw.length < MAX_RAW) this.raw += text.slice(0, MAX_RAW - this.raw.length);
      parser.write(text);
      this.#tell('change');
    });
    const rest = parser.end();
    if (typeof rest.boolean === 'boolean') this.boolean = rest.boolean;
    this.limited = (bound !== null && this.received >= bound) || this.received > this.rows.length;
  }

  #parser(type) {
    const onRow = (row) => {
      this.firstRowMs ??= performance.now() - this.startedAt;
      this.received += 1;
      if (this.rows.length < MAX_ROWS) this.rows.push(row);
    };
    if (type.includes('n-triples') || type.includes('n-quads')) {
      this.columns = ['subject', 'predicate', 'object'];
      return new TriplesParser({ onRow });
    }
    const onHead = (columns) => {
      this.columns = columns;
      this.#tell('change');
    };
    return new ResultsParser({ onHead, onRow: (binding) => onRow(this.columns.map((name) => binding[name] ?? null)) });
  }

  async #watch(signal) {
    try {
      await api.events(
        `api/requests/${this.id}/watch`,
        (name, data) => {
          if (name === 'end') this.ended = JSON.parse(data);
          if (name !== 'plan') return;
          this.plan = JSON.parse(data);
          this.#tell('plan');
        },
        signal,
      );
    } catch {
      // The plan is a courtesy: the query's own answer says what went wrong.
    }
  }

  async #lastPlan() {
    try {
      this.plan = await api.plan(this.id);
      this.#tell('plan');
    } catch {
      // A query that failed early has none.
    }
  }

  #end(state) {
    this.state = state;
    this.elapsedMs = performance.now() - this.startedAt;
    this.#tell('change');
  }

  #fail(error) {
    if (error.name === 'AbortError' || this.ended?.state === 'cancelled') return this.#end('cancelled');
    // A reader that fails in the middle says nothing that helps.
    const broke = this.state === 'reading' && !(error instanceof api.ServerError);
    const lost = error instanceof TypeError && !broke;
    const message = broke
      ? `The answer broke off after ${this.received} rows: ${this.ended?.message ?? `the connection was lost (${error.message}).`}`
      : lost
        ? 'The server cannot be reached.'
        : error.message;
    this.error = {
      message,
      place: error.place ?? null,
      status: error.status ?? null,
      request: error.request ?? null,
      retryAfter: error.retryAfter ?? null,
    };
    this.#end('failed');
  }

  #tell(name) {
    this.dispatchEvent(new Event(name));
  }
}

function within(milliseconds, promise) {
  return Promise.race([promise, new Promise((resolve) => setTimeout(resolve, milliseconds))]);
}

/// What a text probably is. Only for a server whose check does not answer.
export function guessForm(text, language) {
  if (language !== 'sparql') return 'select';
  const bare = text.replace(/#[^\n]*|<[^<>\s]*>|"(?:[^"\\]|\\.)*"/g, ' ').replace(/\bprefix\s+[^\s:]*:/gi, ' ');
  const word = /\b(select|ask|construct|describe|insert|delete|load|clear|drop|create|add|move|copy|with)\b/i.exec(
    bare,
  );
  const found = word?.[1].toLowerCase() ?? 'select';
  return ['select', 'ask', 'construct', 'describe'].includes(found) ? found : 'update';
}
