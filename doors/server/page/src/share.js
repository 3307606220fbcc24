// Links that carry a query in the fragment, which a browser does not send to the server. Pure functions.

/// `#query=…&language=…&view=…`.
export function encodeShare({ query, language, view }) {
  const values = new URLSearchParams();
  if (query) values.set('query', query);
  if (query && language && language !== 'sparql') values.set('language', language);
  if (view && view !== 'table') values.set('view', view);
  const text = values.toString().replaceAll('+', '%20');
  return text ? `#${text}` : '';
}

/// The values of a fragment; those that it does not have are null.
export function decodeShare(fragment) {
  const values = new URLSearchParams(fragment.replace(/^#/, '').replaceAll('+', '%2B'));
  return { query: values.get('query'), language: values.get('language'), view: values.get('view') };
}
