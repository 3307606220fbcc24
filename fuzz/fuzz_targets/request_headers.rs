//! Any bytes as the header fields by which a client and the server agree on formats: what is offered can hold the
//! answer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vicus_server::negotiate_fuzz(bytes);
});
