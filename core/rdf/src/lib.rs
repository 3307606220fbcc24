//! Terms, ids, dictionary, sorted indexes, loading.
