//! Our grammar beside spargebra's: a text with random changes is a query for both or for neither.

use crate::rows::Chance;
use spargebra::SparqlParser;
use vicus_sparql::{QueryErrorKind, parse, parse_update};

const PROLOGUE: &str = "PREFIX : <http://e/>\n";

/// Texts to change: each construct of the grammar occurs at least once.
const TEXTS: [&str; 16] = [
    "SELECT ?a ( ?b + 1 AS ?c ) WHERE { ?a :p ?b ; :q ?d , 2 . OPTIONAL { ?b a :T } FILTER ( ?b > 1 && ! ( ?d = 'x' ) \
        ) }",
    "SELECT DISTINCT * { ?a :p / ^ :q | ! ( :r | ^ :s ) * ?b . MINUS { ?b :p [ :q 1 ] } } ORDER BY DESC ( ?a ) ?b \
        LIMIT 3",
    "SELECT ?a ( COUNT ( DISTINCT ?b ) AS ?n ) { ?a :p ?b } GROUP BY ?a HAVING ( SUM ( ?b ) > 2 ) ORDER BY ?n OFFSET 1",
    "ASK { { ?a :p 1 } UNION { ?a :q ( 1 2 ?c ) } BIND ( IF ( ?a = 1 , 2 , 3 ) AS ?x ) VALUES ( ?y ?z ) { ( 1 UNDEF ) \
        } }",
    "SELECT ?a { { SELECT ?a ( MAX ( ?b ) AS ?m ) { ?a :p ?b } GROUP BY ?a } FILTER EXISTS { ?a ?p ?m } } VALUES ?a { \
        1 }",
    "ASK { ?a :p 'x' @en , \"y\" ^^ :t , 1.5 , -1e3 , true . FILTER ( ?a IN ( 1 , 2 ) || ?a NOT IN ( 3 ) ) }",
    "ASK { ?a :p ?b FILTER NOT EXISTS { ?a :q ?b } FILTER ( BOUND ( ?a ) ) FILTER REGEX ( STR ( ?b ) , '^a' , 'i' ) }",
    "SELECT ( GROUP_CONCAT ( ?b ; SEPARATOR = ',' ) AS ?c ) ( COALESCE( ?a , 1 ) AS ?d ) { ?a :p ?b } GROUP BY ( ?a + \
        1 AS ?g ) ?a",
    "CONSTRUCT { ?a :p [ :q ?b ] } WHERE { ?a :p ?b . GRAPH ?g { ?a a :T } } LIMIT 1",
    "CONSTRUCT WHERE { ?a :p ?b . ?b :q 1 }",
    "DESCRIBE ?a :x FROM :g FROM NAMED :h WHERE { ?a :p ?b }",
    "SELECT REDUCED ?a { SERVICE SILENT :s { ?a :p -1 } ?a :p :q . :q :p () , [] } GROUP BY ?a ( 1 AS ?k )",
    "INSERT DATA { :a :p 1 , 'x' . GRAPH :g { :b :p _:c } } ; CLEAR SILENT NAMED ; LOAD :d INTO GRAPH :g",
    "WITH :g DELETE { ?a :p ?b } INSERT { ?a :q [ :p ?b ] } USING :h WHERE { ?a :p ?b }",
    "DELETE WHERE { ?a :p ?b } ; COPY DEFAULT TO :g ; ADD :g TO GRAPH :h ; DROP ALL ; CREATE GRAPH :g",
    "SELECT ( SUM ( ?b * 2 - 1 / 3 ) AS ?s ) { ?a :p + ?b . ?b :p ? ?c . FILTER ( ?b < 1 || ?b >= 2 && - ?b != + 1 ) }",
];

/// Our errors for texts accepted by spargebra and forbidden by the specification.
const ONLY_THEIRS: [&str; 6] = [
    // §11.4: a variable outside the keys, in a selected expression.
    "has many values in a group",
    // §18.2.4.1: an aggregate in GROUP BY.
    "can't stand in GROUP BY",
    // §18.2.1: AS and BIND give new variables a value.
    "it has one already",
    // Rule 52, TriplesTemplate: a dot stands between two subjects.
    "expected `}`, GRAPH or a triple",
    // Rules 130 to 133: a number's sign touches it, unless it stands in an expression.
    "`-` can't stand here: expected a",
    "`+` can't stand here: expected a",
];

/// Whether we may accept a text refused by spargebra: DESCRIBE may name a variable twice (rule 11), and a literal may
/// be a subject (rules 79 and 106).
fn may_only_be_ours(text: &str, theirs: &str) -> bool {
    let behind = &text[PROLOGUE.len()..];
    behind.starts_with("DESCRIBE") && theirs.contains("Duplicated variable") || behind.starts_with("INSERT DATA")
}

/// The error, if only one of the two grammars accepts the text and it is not a known difference.
fn differ(text: &str) -> Result<(), String> {
    let ours = match parse(text) {
        Err(error) if error.message.contains("begins an update") => parse_update(text).err(),
        read => read.err(),
    };
    let ours = ours.filter(|error| !matches!(error.kind, QueryErrorKind::Unsupported { .. }));
    let ours = ours.map(|error| error.to_string());
    let query = SparqlParser::new().parse_query(text).err();
    let update = SparqlParser::new().parse_update(text);
    // spargebra reads an empty text as an update without operations.
    let is_update = update.is_ok_and(|update| !update.operations.is_empty());
    let theirs = query.filter(|_| !is_update).map(|error| error.to_string());
    match (&ours, &theirs) {
        (None, Some(theirs)) if !may_only_be_ours(text, theirs) => Err(format!("only ours reads it: {theirs}")),
        (Some(ours), None) if !ONLY_THEIRS.iter().any(|rule| ours.contains(rule)) => {
            Err(format!("only theirs reads it: {ours}"))
        }
        _ => Ok(()),
    }
}

#[test]
fn changed_texts_are_queries_for_both_grammars_or_for_neither() {
    let seed = 20_261_122;
    println!("seed {seed}");
    let mut chance = Chance::new(seed);
    let words: Vec<&str> = TEXTS.iter().flat_map(|text| text.split(' ')).collect();
    let mut wrong = Vec::new();
    for text in TEXTS {
        let text = format!("{PROLOGUE}{text}");
        differ(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
    for _ in 0..10_000 {
        let mut tokens: Vec<&str> = chance.pick(&TEXTS).split(' ').collect();
        for _ in 0..1 + chance.below(2) {
            let at = chance.below(tokens.len());
            match chance.below(4) {
                0 => drop(tokens.remove(at)),
                1 => tokens.insert(at, words[chance.below(words.len())]),
                2 => tokens[at] = words[chance.below(words.len())],
                _ => {
                    let other = chance.below(tokens.len());
                    tokens.swap(at, other);
                }
            }
        }
        let text = format!("{PROLOGUE}{}", tokens.join(" "));
        if let Err(why) = differ(&text) {
            wrong.push(format!("{text}\n    {why}"));
        }
    }
    assert!(wrong.is_empty(), "{} texts:\n{}", wrong.len(), wrong.join("\n"));
}
