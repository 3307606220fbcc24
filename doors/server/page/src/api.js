// All requests to the server. Paths are relative to the page, so that it also works behind a proxy with a path of its own.

import { EventLines } from './event-lines.js';
import { LANGUAGES } from './languages.js';

const TOKEN = 'vicus.token';

/// A failure that the server told of. `place` is `{line, column, from, to}` where it is about a place in the text.
export class ServerError extends Error {
  constructor(status, { kind, message, line, column, from, to, request } = {}, retryAfter = null) {
    super(message || statusText(status));
    this.status = status;
    this.kind = kind ?? null;
    this.request = request ?? null;
    this.retryAfter = retryAfter;
    this.place = Number.isInteger(from) ? { line, column, from, to: Math.max(from, to ?? from) } : null;
  }
}

function statusText(status) {
  const texts = {
    401: 'The server asks for a token.',
    403: 'This is not allowed.',
    404: 'The server does not know this.',
    408: 'The query took longer than its time limit.',
    413: 'The text is too long for the server.',
    429: 'There are too many requests from here.',
    503: 'The server is busy.',
  };
  return texts[status] ?? `The server answered with status ${status}.`;
}

/// The token lives as long as the browser's tab.
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

/// An answer of the server, or a ServerError. A request that does not reach it fails with a TypeError, one that is aborted with an
/// AbortError.
export async function request(path, { headers = {}, ...rest } = {}) {
  const all = { ...headers };
  if (token.get()) all.Authorization = `Bearer ${token.get()}`;
  const response = await fetch(new URL(path, document.baseURI), { headers: all, cache: 'no-store', ...rest });
  if (response.ok) return response;
  const text = await response.text();
  let error = { message: text.slice(0, 4000).trim() };
  try {
    error = JSON.parse(text).error ?? error;
  } catch {
    // It is no JSON: the text is the message.
  }
  throw new ServerError(response.status, error, response.headers.get('Retry-After'));
}

async function json(path, options) {
  return (await request(path, { headers: { Accept: 'application/json' }, ...options })).json();
}

function post(path, value, signal) {
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json' };
  return json(path, { method: 'POST', headers, body: JSON.stringify(value), signal });
}

export const info = () => json('api/info');
export const contents = () => json('api/contents');
export const complete = (value, signal) => post('api/complete', value, signal);
export const check = (value, signal) => post('api/check', value, signal);
export const requests = (signal) => json('api/requests', { signal });
export const plan = (id) => json(`api/requests/${id}/plan`);
/// One file that shows a run, for people.
export const view = async (id) => (await request(`api/requests/${id}/view`, { headers: { Accept: 'text/html' } })).blob();
/// Likewise for a recording that a file has, a trace or an earlier page.
export const shown = async (file) => {
  const path = `api/view?${new URLSearchParams({ name: file.name })}`;
  const headers = { Accept: 'text/html', 'Content-Type': 'application/octet-stream' };
  return (await request(path, { method: 'POST', headers, body: file })).blob();
};
export const stop = (id) => request(`api/requests/${id}`, { method: 'DELETE', headers: secretOf(id) });

/// The secrets of the requests that this page has begun. Who has no token ends a request by its secret alone: others may have the same
/// address.
const secrets = new Map();
const secretOf = (id) => (secrets.has(id) ? { 'Vicus-Request-Secret': secrets.get(id) } : {});

/// The headers of a request with this id.
function named(id) {
  if (!secrets.has(id)) secrets.set(id, newId());
  return { 'Vicus-Request-Id': id, ...secretOf(id) };
}

/// Sends a query in any language; the answer's body is for the caller to read.
export function query({ text, language, accept, id, trace, limit, timeout }, signal) {
  const values = new URLSearchParams();
  if (limit) values.set('limit', String(limit));
  if (timeout) values.set('timeout', String(timeout));
  const { path, type } = LANGUAGES[language];
  const headers = { Accept: accept, 'Content-Type': type };
  if (id) Object.assign(headers, named(id));
  if (trace) headers['Vicus-Trace'] = '1';
  return request(values.size ? `${path}?${values}` : path, { method: 'POST', headers, body: text, signal });
}

export async function update({ text, id }, signal) {
  const headers = { Accept: 'application/json', 'Content-Type': 'application/sparql-update', ...named(id) };
  const response = await request('update', { method: 'POST', headers, body: text, signal });
  return response.status === 204 ? {} : response.json().catch(() => ({}));
}

/// Adds a document to a graph, or to the default graph without a name. `fetch` tells no progress of what it sends, so this is the old way.
export function addToGraph({ body, type, graph }, signal, onSent) {
  return new Promise((resolve, reject) => {
    const path = graph ? `store?graph=${encodeURIComponent(graph)}` : 'store?default';
    const sending = new XMLHttpRequest();
    sending.open('POST', new URL(path, document.baseURI));
    sending.setRequestHeader('Content-Type', type);
    sending.setRequestHeader('Accept', 'application/json');
    if (token.get()) sending.setRequestHeader('Authorization', `Bearer ${token.get()}`);
    sending.upload.addEventListener('progress', (event) => onSent(event.loaded));
    sending.addEventListener('load', () => {
      if (sending.status >= 200 && sending.status < 300) return resolve();
      let error = { message: sending.responseText.slice(0, 4000).trim() };
      try {
        error = JSON.parse(sending.responseText).error ?? error;
      } catch {
        // It is no JSON: the text is the message.
      }
      return reject(new ServerError(sending.status, error));
    });
    sending.addEventListener('error', () => reject(new TypeError('the server cannot be reached')));
    sending.addEventListener('abort', () => reject(Object.assign(new Error('stopped'), { name: 'AbortError' })));
    signal.addEventListener('abort', () => sending.abort());
    sending.send(body);
  });
}

/// The plan without running the query.
export async function planOnly({ text, language }, signal) {
  return (
    await query({ text, language, accept: 'application/vnd.vicus.plan+json, application/json;q=0.5' }, signal)
  ).json();
}

/// Reads a stream of server-sent events until it ends or is aborted. The browser's EventSource cannot send a token, so this is a plain
/// request.
export async function events(path, onEvent, signal) {
  const response = await request(path, { headers: { Accept: 'text/event-stream' }, signal });
  const lines = new EventLines(onEvent);
  await readText(response, (text) => lines.write(text));
}

/// Reads a body as text piece by piece. `onText` also gets the number of bytes so far.
export async function readText(response, onText) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    onText(decoder.decode(value, { stream: true }), bytes);
  }
  const rest = decoder.decode();
  if (rest) onText(rest, bytes);
}

/// A new id for a request. `crypto.randomUUID` is missing on pages without TLS.
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
