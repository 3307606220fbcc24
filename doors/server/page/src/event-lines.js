// Parses a stream of server-sent events (HTML Standard, section 9.2.6) that comes in pieces. Pure.

export class EventLines {
  /// `onEvent` gets the name ("message" without one) and the data of each event.
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = '';
    this.name = '';
    this.data = [];
  }

  write(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === '') {
      if (this.data.length) this.onEvent(this.name || 'message', this.data.join('\n'));
      this.name = '';
      this.data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.name = value;
    else if (field === 'data') this.data.push(value);
  }
}
