// Reads SPARQL results in JSON piece by piece, so that rows can be shown while more arrive. Pure.
//
// The text outside of the list of bindings is kept as a skeleton and parsed at the end; each binding is cut out where its braces close
// and parsed by itself. So memory is needed for the rows alone, and members may come in any order.

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN = 123;
const CLOSE = 125;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const COMMA = 44;
const COLON = 58;

export class ResultsParser {
  /// `onRow` gets each binding as an object; `onHead` the list of variables, as soon as they are known before the first row.
  constructor({ onRow, onHead }) {
    this.onRow = onRow;
    this.onHead = onHead;
    this.skeleton = '';
    /// What was cut in two by the end of a piece: the beginning of a binding.
    this.begun = '';
    this.depth = 0;
    this.inString = false;
    this.escaped = false;
    /// The names that lead to the place, one for each open brace or bracket; and the name read last.
    this.path = [];
    this.name = '';
    this.stringFrom = '';
    this.readsName = false;
    this.inBindings = false;
    this.headKnown = false;
  }

  write(text) {
    let at = 0;
    while (at < text.length) at = this.inBindings ? this.#bindings(text, at) : this.#outside(text, at);
  }

  /// The rest of the document: `{head, boolean}`. Throws when it is not complete.
  end() {
    if (this.depth || this.inString || !this.skeleton.trim()) throw new Error('The result ended too early.');
    const rest = JSON.parse(this.skeleton);
    this.#head(rest);
    return rest;
  }

  #head(document) {
    if (this.headKnown || !document.head?.vars) return;
    this.headKnown = true;
    this.onHead(document.head.vars);
  }

  /// Reads outside of the bindings. Returns where to go on.
  #outside(text, from) {
    for (let at = from; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (this.inString) {
        if (this.escaped) this.escaped = false;
        else if (code === BACKSLASH) this.escaped = true;
        else if (code === QUOTE) {
          this.inString = false;
          this.name = this.stringFrom;
          continue;
        }
        this.stringFrom += text[at];
        continue;
      }
      if (code === QUOTE) {
        this.inString = true;
        this.stringFrom = '';
      } else if (code === OPEN || code === OPEN_LIST) {
        this.depth += 1;
        this.path.push(this.name);
        this.name = '';
        if (code === OPEN_LIST && this.depth === 3 && this.path[1] === 'results' && this.path[2] === 'bindings') {
          this.skeleton += text.slice(from, at + 1);
          this.inBindings = true;
          this.begun = '';
          this.#head(JSON.parse(`${this.skeleton}]}}`));
          return at + 1;
        }
      } else if (code === CLOSE || code === CLOSE_LIST) {
        this.depth -= 1;
        this.path.pop();
      } else if (code === COMMA) {
        this.name = '';
      } else if (code > 32 && code !== COLON && this.depth === 0) {
        throw new Error('The result is not JSON.');
      }
    }
    this.skeleton += text.slice(from);
    return text.length;
  }

  /// Reads within the bindings. Returns where to go on.
  #bindings(text, from) {
    let { depth, inString, escaped } = this;
    let begin = depth > 3 ? from : -1;
    for (let at = from; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (inString) {
        if (escaped) escaped = false;
        else if (code === BACKSLASH) escaped = true;
        else if (code === QUOTE) inString = false;
      } else if (code === QUOTE) {
        inString = true;
      } else if (code === OPEN) {
        if (depth === 3) begin = at;
        depth += 1;
      } else if (code === CLOSE) {
        depth -= 1;
        if (depth === 3) {
          this.onRow(JSON.parse(this.begun + text.slice(begin, at + 1)));
          this.begun = '';
          begin = -1;
        }
      } else if (code === CLOSE_LIST && depth === 3) {
        this.inBindings = false;
        Object.assign(this, { depth: 3, inString, escaped });
        return at;
      }
    }
    if (begin >= 0) this.begun += text.slice(begin);
    Object.assign(this, { depth, inString, escaped });
    return text.length;
  }
}
