//! What happened, in words both worlds share, and how it is written to and read from a file.
