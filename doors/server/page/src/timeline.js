// The time line of a query, or of a recording from a file: the viewer of `vicus trace view` in a frame. The server makes its page.

import * as api from './api.js';
import { h, icon, replace, toast } from './dom.js';
import { bytes } from './format.js';

export class Timeline {
  constructor(parent) {
    this.controls = h('div', { class: 'view-controls' });
    this.file = h('input', {
      type: 'file',
      hidden: true,
      'aria-label': 'A trace, or a page of a run',
      onChange: () => this.#upload(this.file.files[0]),
    });
    this.place = h('div', { class: 'run-place' });
    this.empty = h('p', { class: 'empty' });
    parent.append(this.controls, this.empty, this.place, this.file);
    this.show(null, 'Run a query to see its time line.');
  }

  /// Shows the page of a run, a Blob, under the name of its file; or says why there is none.
  async show(page, why = '', name = 'run.html') {
    this.page = page;
    this.name = name;
    this.empty.textContent = why;
    this.empty.hidden = Boolean(page);
    this.place.hidden = !page;
    this.#renderControls();
    if (!page) return replace(this.place);
    const srcdoc = await page.text();
    if (page !== this.page) return undefined;
    // In the frame the page has no origin: it can neither ask the server nor read what this page keeps.
    const frame = h('iframe', { class: 'run', title: 'The recorded run', sandbox: 'allow-scripts allow-downloads', srcdoc });
    return replace(this.place, frame);
  }

  #renderControls() {
    const button = (name, text, title, onClick) =>
      h('button', { type: 'button', class: 'button', title, onClick }, icon(name), text);
    replace(
      this.controls,
      this.page && h('span', { class: 'quiet' }, `${this.name}, ${bytes(this.page.size)}`),
      h('span', { class: 'grow' }),
      button('upload', 'Open a recording', 'Show a trace file, or a page of a run', () => this.file.click()),
      this.page &&
        button('download', 'Save the run', 'Save the run as one file that shows all of it', () => this.#save()),
    );
  }

  #save() {
    const link = h('a', { href: URL.createObjectURL(this.page), download: this.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    toast(`Saved ${this.name}, ${bytes(this.page.size)}: open it in a browser`, { kind: 'good' });
  }

  async #upload(file) {
    this.file.value = '';
    if (!file) return;
    this.show(null, `Sending ${file.name}…`);
    try {
      await this.show(await api.shown(file), '', `${file.name.replace(/\.(trace|html?)$/, '')}.html`);
    } catch (error) {
      this.show(null, `${file.name}: ${error.message}`);
    }
  }
}
