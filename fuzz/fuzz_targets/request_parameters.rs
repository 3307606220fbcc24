//! Any bytes as the parameters of a request, and as a body of several documents: an error, or names and values.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    vicus_server::parameters_fuzz(bytes);
    vicus_server::multipart_fuzz(bytes);
});
