//! The house rules are tests; see `tests/tidy`.
