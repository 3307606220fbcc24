//! Random texts: an error, never a panic.

use vicus_network::{Kinds, MachineCounts, NetworkText, parse_schema};

/// Words that texts are made of, so that random ones come far into the parser.
const WORDS: [&str; 44] = [
    "box",
    "param",
    "network",
    "local",
    "threads",
    "nodes",
    "input",
    "output",
    "true",
    "numbers",
    "filter",
    "union",
    "sink",
    "partition",
    "a",
    "b",
    "c",
    "to",
    "where",
    "by",
    "integer",
    "text",
    "=",
    ";",
    ":",
    ",",
    ".",
    "(",
    ")",
    "*",
    "{",
    "}",
    "->",
    "0",
    "1",
    "-7",
    "2.5",
    "\"n > {a}\"",
    "\"",
    "# no\n",
    "(n: I64)",
    "List(",
    "é",
    "\\",
];

fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn read(text: &str) {
    if let Ok(network) = text.parse::<NetworkText>() {
        let printed = network.to_string();
        assert_eq!(printed.parse::<NetworkText>().as_ref(), Ok(&network), "{text}");
        let built = network.build("test", &Kinds::library(), &MachineCounts { threads: 2, nodes: 1 }, &[]);
        assert!(built.map_or_else(|error| !error.to_string().is_empty(), |_| true));
    }
    assert!(parse_schema(text).map_or_else(|error| !error.to_string().is_empty(), |_| true));
}

#[test]
fn random_texts_are_errors_or_networks() {
    let seed = 53;
    println!("seed {seed}");
    let mut state = seed;
    for _ in 0..20_000 {
        let words = next(&mut state) % 40;
        let text: Vec<&str> = (0..words).map(|_| WORDS[next(&mut state) % WORDS.len()]).collect();
        read(&text.join(if next(&mut state).is_multiple_of(4) { "" } else { " " }));
    }
}

#[test]
fn changed_texts_are_errors_or_networks() {
    let seed = 54;
    println!("seed {seed}");
    let text = "param p: integer = 3;\n\
                network w(k: text) { box f = filter(where: \"n > {k}\"); input -> f -> output; }\n\
                box n = numbers(to: p);\nbox a = w(k: \"1\") * threads;\n\
                box s = sink;\nn -> a -> s : (n: I64 or null);\n";
    read(text);
    let mut state = seed;
    for _ in 0..5_000 {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..1 + next(&mut state) % 4 {
            let at = next(&mut state) % bytes.len();
            match next(&mut state) % 3 {
                0 => bytes[at] = (next(&mut state) % 128) as u8,
                1 => _ = bytes.remove(at),
                _ => bytes.insert(at, bytes[next(&mut state) % bytes.len()]),
            }
        }
        read(&String::from_utf8_lossy(&bytes));
    }
}
