//! Boxes that work, vias that carry, envelopes that hold columns.
