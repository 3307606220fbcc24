//! Any bytes as a network's text, and as columns: an error with words, or a network that is read as it is printed and
//! built or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vicus_network::{Kinds, MachineCounts, NetworkText, parse_schema, schema_text};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<NetworkText>() {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(network) => {
            assert_eq!(network.to_string().parse::<NetworkText>().as_ref(), Ok(&network));
            assert_eq!(NetworkText::from_json(&network.to_json()).as_ref(), Ok(&network));
            // Files are not read: the library's kinds know none.
            let built = network.build("fuzz", &Kinds::library(), &MachineCounts { threads: 2, nodes: 1 }, &[]);
            assert!(built.map_or_else(|error| !error.to_string().is_empty(), |_| true));
        }
    }
    if let Ok(schema) = parse_schema(text) {
        assert_eq!(parse_schema(&schema_text(&schema)), Ok(schema));
    }
});
