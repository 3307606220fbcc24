//! Tests of the grammar's rules, against its text and against other parsers.

use crate::{ParseOptions, QueryError, QueryErrorKind, parse, parse_update, parse_update_with, parse_with};
use std::fmt::Write as _;

fn wrong(text: &str) -> QueryError {
    match parse(text) {
        Ok(_) => panic!("{text} is read"),
        Err(error) if error.message.contains("begins an update") => wrong_update(text),
        Err(error) => error,
    }
}

fn wrong_update(text: &str) -> QueryError {
    match parse_update(text) {
        Ok(_) => panic!("{text} is read"),
        Err(error) => error,
    }
}

fn is_too_deep(text: &str) -> bool {
    parse(text).err().is_some_and(|error| error.kind == QueryErrorKind::TooDeep)
}

#[test]
fn a_syntax_error_says_where() {
    for (text, place) in [
        ("SELECT ?s WHERE {\n  ?s ?p ?o .\n  FILTER (?o = )\n}", (3, 16)),
        ("SELECT ?s WHERE {\n  ?s ?p \n}", (3, 1)),
        ("SELECT ?s WHERE {\n  ?s ?p ?o }}", (2, 13)),
        ("SELECT ?s WHERE {\n  ?s ?p ?o", (2, 11)),
        ("SELECT ?s WHERE {\n  ?s ?p ?o # a comment\n\n", (2, 11)),
        ("SELEC ?s", (1, 1)),
        ("", (1, 1)),
        ("ASK { ?\\u00E9 ?p }", (1, 18)),
        ("ASK { ?s <p> ?o }", (1, 10)),
        ("ASK { ?s e:p ?o }", (1, 10)),
        ("ASK { ?s ?p \"a\\z\" }", (1, 15)),
        ("ASK { ?s ?p 'a\n' }", (1, 13)),
    ] {
        let error = wrong(text);
        assert_eq!(((error.line, error.column), &error.kind), (place, &QueryErrorKind::Syntax), "{text}: {error}");
    }
}

/// What happened: all of these were refused with "the query ends too early", without a place.
#[test]
fn a_broken_rule_is_named_with_its_place() {
    for (text, column, said) in [
        ("SELECT ?x ?x { ?x ?p ?o }", 11, "?x is selected twice"),
        ("SELECT (1 AS ?x) (2 AS ?x) { }", 24, "?x is selected twice"),
        ("SELECT (1 AS ?x) { ?x ?p ?o }", 14, "AS can't give ?x a value"),
        ("SELECT ?x { ?x ?p ?o FILTER (COUNT(?x) > 1) }", 30, "COUNT is an aggregate and can't stand in a pattern"),
        ("SELECT ?x { ?x ?p ?o BIND (SUM(?o) AS ?s) }", 28, "SUM is an aggregate and can't stand in a pattern"),
        ("SELECT (COUNT(COUNT(?x)) AS ?n) { ?x ?p ?o }", 15, "COUNT is an aggregate and can't stand in an aggregate"),
        ("SELECT ?p { ?x ?p ?o } GROUP BY (COUNT(?x) AS ?n)", 34, "can't stand in GROUP BY"),
        ("SELECT ?x { ?x ?p ?o } GROUP BY ?p", 8, "?x has many values in a group"),
        ("SELECT ?p (?o + COUNT(*) AS ?n) { ?x ?p ?o } GROUP BY ?p", 12, "?o has many values in a group"),
        ("SELECT ?o (COUNT(*) AS ?n) { ?x ?p ?o }", 8, "?o has many values in a group"),
        ("SELECT * { ?x ?p ?o } GROUP BY ?p", 8, "`SELECT *` can't stand with GROUP BY"),
        ("SELECT ?x { ?x ?p ?o BIND (1 AS ?o) }", 33, "BIND can't give ?o a value"),
        ("SELECT ?p { ?x ?p ?o } GROUP BY ?p (1 AS ?o)", 42, "AS can't give ?o a value"),
        ("ASK { VALUES (?x ?y) { (1 2) (3) } }", 30, "a row of VALUES has 1 values for 2 variables"),
        ("ASK { VALUES (?x ?x) { } }", 18, "VALUES has ?x twice"),
        ("ASK { _:a ?p ?o OPTIONAL { _:a ?p 1 } }", 28, "`_:a` stands in another basic graph pattern"),
        ("ASK { ?s ?p ?o FILTER (STRLEN(?o, 1) = 2) }", 30, "STRLEN has 1 operands, not 2"),
        ("ASK { ?s ?p ?o FILTER (STRLENGTH(?o) = 2) }", 24, "there is no function STRLENGTH"),
        ("ASK { ?s ?p \"a\"@averyverylongtag }", 16, "is no language tag"),
        ("ASK { ?s ?p <http://e/[> }", 13, "is no IRI"),
        ("ASK { ?s e:p 1 }", 10, "the prefix `e:` is not declared"),
        ("ASK { ?s foaf:p 1 }", 10, "not declared; its usual IRI: PREFIX foaf: <http://xmlns.com/foaf/0.1/>"),
        ("ASK { ?s <http://e/p ?o }", 10, "an IRI that doesn't end"),
        ("ASK { ?s ?p <https://e/p> . ?s <https://e/a\n ?p 1 }", 32, "an IRI that doesn't end"),
        ("INSERT DATA { ?s <http://e/p> 1 }", 15, "a variable can't stand in INSERT DATA"),
        ("DELETE DATA { _:a <http://e/p> 1 }", 15, "a blank node can't stand in DELETE DATA"),
        ("DELETE { _:a <http://e/p> ?o } WHERE { ?s ?p ?o }", 10, "a blank node can't stand in DELETE"),
        ("DELETE WHERE { [] <http://e/p> ?o }", 16, "a blank node can't stand in DELETE"),
        ("INSERT DATA { GRAPH ?g { } }", 21, "a variable can't stand in INSERT DATA"),
        (
            "CLEAR ALL ; CLEAR ALL ; INSERT DATA { <http://e/s> } ",
            52,
            "`}` can't stand here: expected a triple's predicate",
        ),
        ("CLEAR ALL ; SELECT * { }", 13, "`SELECT` can't stand here: expected INSERT, DELETE"),
        ("LOAD <http://e/s> INTO <http://e/g>", 24, "expected GRAPH"),
        (
            "INSERT DATA { _:a <http://e/p> 1 } ; INSERT DATA { _:a <http://e/p> 1 }",
            52,
            "in another basic graph pattern",
        ),
        ("CLEAR ALL CLEAR ALL", 11, "expected the update's end"),
    ] {
        let error = wrong(text);
        assert_eq!((error.line, error.column), (1, column), "{text}: {error}");
        assert_eq!(error.kind, QueryErrorKind::Syntax, "{text}: {error}");
        assert!(error.message.contains(said), "{text}: {error}");
    }
}

#[test]
fn a_query_is_no_update_and_an_update_no_query() {
    let error = parse("PREFIX e: <http://e/> CLEAR ALL").err().unwrap();
    assert_eq!((error.column, &error.kind), (23, &QueryErrorKind::Syntax), "{error}");
    assert_eq!(error.message, "`CLEAR` begins an update, and a query is expected here");
    let error = wrong_update("ASK {}");
    assert!(error.message.starts_with("`ASK` can't stand here: expected INSERT, DELETE, WITH"), "{error}");
    assert_eq!(wrong_update("CLEAR").to_string(), "line 1, column 6: the update ends too early: expected GRAPH");
    // SPARQL 1.1 Update allows texts without operations, and texts with a semicolon at the end.
    for (text, operations) in
        [("", 0), ("PREFIX e: <http://e/>", 0), ("CLEAR ALL ;", 1), ("CLEAR ALL ; BASE <http://e/> ", 1)]
    {
        assert_eq!(parse_update(text).unwrap().operations().len(), operations, "{text}");
    }
}

/// Each operation has a copy of the prefixes if one was declared since the one before: of n prefixes n times n.
#[test]
fn the_prefixes_of_operations_have_a_limit() {
    let text = |count: usize| {
        (0..count).fold(String::new(), |mut text, number| {
            write!(text, "PREFIX p{number}: <http://e/{number}> DELETE WHERE {{ ?s p{number}: ?o }} ; ").unwrap();
            text
        })
    };
    assert!(parse_update(&text(100)).is_ok());
    let error = parse_update(&text(5000)).err().unwrap();
    assert_eq!(error.kind, QueryErrorKind::NamesTooLong);
    // Without new ones they are shared.
    let many = text(100) + &"DELETE WHERE { ?s p1: ?o } ; ".repeat(20_000);
    let options = ParseOptions { longer: 16, ..ParseOptions::default() };
    assert!(parse_update_with(&many, &options).is_ok());
}

/// What happened: the earlier parser refused each of these.
#[test]
fn what_the_grammar_allows_is_read() {
    for text in [
        "ASK { ?s <http://e/p> ?o FILTER (!EXISTS { _:q <http://e/p> ?v }) }",
        "ASK { ?s !() ?o }",
        "SELECT (COALESCE ( ) AS ?a) (CONCAT ( ) AS ?b) (RAND ( ) AS ?c) { }",
        "SELECT (SUM(?x) AS ?c) (?c / 2 AS ?m) { ?s ?p ?x }",
        "SELECT ?p (COUNT(*) AS ?c) (?c + 1 AS ?d) { ?s ?p ?o } GROUP BY ?p HAVING (COUNT(*) > 1) ORDER BY ?d STR(?p)",
        "ASK { FILTER (TRUE && !False) ?s ?p true }",
        "select * { ?s a ?o ; ; ?p 1 , 2 ; . [] ?p () . [ ?p ?o ] . (1 (2)) . (3) ?p [ ] }",
        "ASK { ?s <http://e/p> +1, -1.5, +1e5 . ?s <http://e/p>+ +1 }",
        "ASK { ?s (<http://e/p>|^<http://e/q>/!(a|^<http://e/r>))* ?o }",
        "SELECT ?\\u00E9 { ?\\U000000E9 ?p '\\u0022' }",
        "ASK { ?s ?p ?o . FILTER (?o -1 = 2) FILTER (?o+1=2) FILTER (- ?o < +3) }",
        "ASK { VALUES () { () () } VALUES ?x { UNDEF 1 <http://e/x> } }",
        "SELECT ?x { ?x ?p ?o } LIMIT 99999999999999999999 OFFSET 1",
        "SELECT ?s { { SELECT ?s { ?s ?p ?o } VALUES ?s { 1 } } { } UNION { } } VALUES ?s { 1 }",
        "ASK { _:a ?p _:b FILTER (1 = 1) _:b ?q _:a }",
        "ASK { ?s ?p ?o FILTER NOT EXISTS { ?s ?p 1 } FILTER (?o NOT IN (1, 2)) FILTER (?o IN ()) }",
        "SELECT (GROUP_CONCAT(DISTINCT ?x ; SEPARATOR = \", \") AS ?all) { ?s ?p ?x }",
        "PREFIX : <http://e/> PREFIX a.b: <http://e/> BASE <x/> ASK { :a\\-b a.b:c%20d:e <y> }",
    ] {
        let read = parse_with(text, &ParseOptions { base: Some("http://e/"), ..ParseOptions::default() });
        assert!(read.is_ok(), "{text}: {}", read.err().unwrap());
    }
}

/// What happened: the earlier parser accepted each of these.
#[test]
fn what_the_grammar_forbids_is_refused() {
    for (text, column) in [
        ("PREFIX : <http://e/> ASK { ?s :p - 1 }", 34),
        ("ASK { ?s ?p ?o . . }", 18),
        ("ASK { ?s ?p ?o ?s ?p ?o }", 16),
        ("ASK { [] }", 10),
        ("ASK { ?s A ?o }", 10),
        ("ASK { ?s ?p ?o FILTER ?o }", 23),
        ("ASK { ?s ?p ?o FILTER (1 < 2 < 3) }", 30),
        ("ASK { ?s ?p ?o FILTER (!!?o) }", 25),
        ("SELECT { ?s ?p ?o }", 8),
        ("SELECT ?s { ?s ?p ?o } LIMIT 1 LIMIT 2", 32),
        ("SELECT ?s { ?s ?p ?o } ORDER BY", 32),
        ("SELECT ?s { ?s ?p ?o } GROUP BY", 32),
        ("CONSTRUCT { ?s <http://e/p>+ ?o } { ?s ?p ?o }", 28),
        ("DESCRIBE * { ?s ?p ?o } GROUP BY ?s", 10),
        ("ASK { ?s ?p ?o } ASK { }", 18),
    ] {
        let error = wrong(text);
        assert_eq!((error.line, error.column, &error.kind), (1, column, &QueryErrorKind::Syntax), "{text}: {error}");
    }
}

#[test]
fn an_unknown_function_is_an_error_of_its_call_or_of_the_query() {
    let text = "ASK { ?s ?p ?o\n FILTER (<http://e/f>(?o)) }";
    assert!(parse(text).is_ok());
    let error = parse_with(text, &ParseOptions { strict_functions: true, ..ParseOptions::default() }).err().unwrap();
    assert_eq!(error.kind, QueryErrorKind::UnknownFunction { name: "http://e/f".to_owned() });
    assert_eq!(error.to_string(), "line 2, column 10: there is no function <http://e/f>");
}

#[test]
fn what_is_not_supported_is_named() {
    let text = "ASK { FILTER EXISTS { SERVICE <http://e/s> { ?s ?p ?o } } }";
    let error = wrong(text);
    let what = "SERVICE patterns within EXISTS".to_owned();
    assert_eq!((error.column, error.kind), (23, QueryErrorKind::Unsupported { what }));
}

/// What happened: 15,000 `<` in a row, 6,400 nested sub-selects, 598 nested OPTIONALs on a small stack, and chains of
/// operators ended the process with a stack overflow.
#[test]
fn depth_is_an_error_before_the_stack_ends() {
    let nest = |depth: usize| format!("ASK {{ FILTER ({}1{}) }}", "(".repeat(depth), ")".repeat(depth));
    let deep: Vec<String> = vec![
        nest(100_000),
        format!("ASK {}{}", "{".repeat(100_000), "}".repeat(100_000)),
        format!("ASK {{ FILTER ({}1{}) }}", "STR(".repeat(100_000), ")".repeat(100_000)),
        format!("ASK {{ FILTER (1{}) }}", " + 1".repeat(100_000)),
        format!("ASK {{ FILTER (1{}) }}", " * 1".repeat(100_000)),
        format!("ASK {{ {} }}", "OPTIONAL {} ".repeat(100_000)),
        format!("ASK {{ {} }}", "MINUS {} ".repeat(100_000)),
        format!("ASK {{ {} }}", (0..10_000).fold(String::new(), |all, n| all + &format!("BIND (1 AS ?v{n}) "))),
        format!("ASK {}{}", "{ OPTIONAL ".repeat(100_000), "}".repeat(100_000)),
        format!("ASK {}", "{ FILTER EXISTS ".repeat(100_000)),
        format!("SELECT * {}", "{ SELECT * ".repeat(100_000)),
        format!("ASK {{ ?s {}a{} ?o }}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("ASK {{ {} }}", "[ ?p ".repeat(100_000)),
        format!("ASK {{ {} }}", "( ".repeat(100_000)),
        format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", "STR(?s) ".repeat(2000)),
        format!("SELECT (COUNT(*) AS ?n) {{ ?s ?p ?o }} GROUP BY {}", "(STR(?s)) ".repeat(2000)),
        format!("SELECT (1 AS ?x) {{ ?s ?p ?o }} HAVING {}", "(COUNT(STR(?s)) > 1) ".repeat(2000)),
        // Levels on top of others add up.
        format!("ASK {{ FILTER {}1{} }}", "(".repeat(100), (" + 1".repeat(50) + ")").repeat(100)),
        format!("ASK {}?s ?p ?o{}", "{".repeat(100), (" OPTIONAL {}".repeat(50) + "}").repeat(100)),
        format!("ASK {{ ?s ?p ?o }} ORDER BY {}", "(?s + 1) ".repeat(2000)),
        format!("ASK {{ ?s ?p ?o }} GROUP BY {}", "(?s + 1) ".repeat(2000)),
    ];
    for text in &deep {
        assert!(is_too_deep(text), "{}: {:?}", &text[..60], parse(text).err());
    }
    // Several comparisons in a row are a syntax error, however many there are.
    assert_eq!(wrong(&format!("ASK {{ FILTER (1 {} 2) }}", "< ".repeat(15_000))).kind, QueryErrorKind::Syntax);
    let limit = ParseOptions { depth: 10, ..ParseOptions::default() };
    assert!(parse_with(&nest(7), &limit).is_ok());
    let error =
        parse_with(&format!("ASK {{\n FILTER {}", nest(20).replace("ASK { FILTER ", "")), &limit).err().unwrap();
    assert_eq!((error.line, error.kind), (2, QueryErrorKind::TooDeep));
    assert!(error.message.contains("more than 10 levels"), "{}", error.message);
}

#[test]
fn what_is_as_deep_as_may_be_is_read() {
    for text in [
        format!("ASK {{ FILTER ({}1{}) }}", "(".repeat(990), ")".repeat(990)),
        format!("ASK {{ ?s ?p ?o {} }}", "OPTIONAL { ?s ?p ?o } ".repeat(990)),
        format!("ASK {{ FILTER (1{}) }}", " + 1".repeat(990)),
        format!("SELECT * {}{}", "{ SELECT * ".repeat(990), "{} ".to_owned() + &"}".repeat(990)),
        format!("ASK {} ?s ?p ?o {}", "{".repeat(990), "}".repeat(990)),
    ] {
        assert!(parse(&text).is_ok(), "{}: {}", &text[..60], parse(&text).err().unwrap());
    }
}

/// What happened: `||` was refused from 327 on, and texts of a megabyte kept the parser busy for more than 30 seconds.
#[test]
fn much_text_that_lies_side_by_side_is_read() {
    let mut table = "SELECT * { VALUES (?a ?b) {".to_owned();
    for row in 0..20_000 {
        write!(table, " (-{row}.5e-3 \"{}\"@en-GB)", "x".repeat(row % 40)).expect("a string takes everything");
    }
    table += " } FILTER (?a IN (0";
    (0..5000).for_each(|number| write!(table, ", -{number}").expect("a string takes everything"));
    table += ")) }";
    let variables = (0..50_000).fold(String::new(), |all, number| all + "?v" + &number.to_string() + " ");
    for text in [
        table,
        format!(
            "PREFIX my-ns: <http://e/> ASK {{ {} }}",
            "<http://e/s> my-ns:a-b-c <http://e/a-b+c> . ".repeat(100_000)
        ),
        format!("ASK {{ FILTER (1{}) }}", " || 1".repeat(100_000)),
        format!("ASK {{ FILTER (1{}) }}", " || 1 + 1 * 2 < 3 && -1 = 2".repeat(20_000)),
        format!("ASK {{ {{}} {} }}", "UNION {} ".repeat(100_000)),
        format!("ASK {{ ?s a{} ?o }}", "/a|a".repeat(100_000)),
        format!("SELECT {variables} {{ VALUES ({variables}) {{ }} }}"),
        format!("SELECT (COUNT(*) AS ?n) {{ ?s ?p ?o }} GROUP BY {variables}"),
        format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", "?s ".repeat(100_000)),
        format!("ASK {{ ?s ?p {} }}", "'a', \"b\"@en, 1.5, ".repeat(50_000) + "1"),
    ] {
        assert!(parse(&text).is_ok(), "{}: {}", &text[..60], parse(&text).err().unwrap());
    }
    for text in [format!("ASK {{ ?s ?p {} }}", "1.".repeat(500_000)), format!("ASK {{ {} }}", "a.".repeat(500_000))] {
        assert_eq!(wrong(&text).kind, QueryErrorKind::Syntax);
    }
}

/// What happened: a text of 169 kB, with a prefix of 100,000 bytes and 10,000 names with it, took 8 seconds and 2 GB
/// under a limit of 100 MB. One of 20 kB, with a path of 4,000 signs and as many objects, took 16 seconds and 2.3 GB
/// before it was planned.
#[test]
fn short_names_for_long_texts_have_a_limit() {
    use QueryErrorKind::{NamesTooLong, TooManySigns};
    let long = "a".repeat(100_000);
    let (names, paths) = (|name: &str, count| name.repeat(count), |count| "a|".repeat(count));
    for (text, kind) in [
        (format!("PREFIX p: <http://e/{long}> ASK {{\n VALUES ?x {{ {} }} }}", names("p:b ", 10_000)), NamesTooLong),
        (format!("BASE <http://e/{long}/>\nASK {{ VALUES ?x {{ {} }} }}", names("<b> ", 10_000)), NamesTooLong),
        (format!("BASE <http://e/>\n{} ASK {{ }}", names("BASE <b/> ", 50_000)), NamesTooLong),
        (format!("ASK {{\n ?s {}a {}1 }}", paths(4000), names("1,", 4000)), TooManySigns),
        (format!("ASK {{\n ?s ({}a)* {}1 ; {0}a {1}1 }}", paths(300), names("1,", 300)), TooManySigns),
    ] {
        let error = wrong(&text);
        assert_eq!((error.line, &error.kind), (2, &kind), "{}: {error}", &text[..60]);
    }
    // 61 bytes without the prefix's text, and 30 names: 30,000 bytes longer. And 29 repeated signs.
    let (iri, few) = ("b".repeat(1000), "p:b ".repeat(30));
    let text = format!("PREFIX p: <http://e/{iri}> ASK {{ VALUES ?x {{ {few} }} }}");
    let longer = |longer| ParseOptions { longer, ..ParseOptions::default() };
    assert!(parse_with(&text, &longer(14)).is_ok());
    let error = parse_with(&text, &longer(13)).err().unwrap();
    assert_eq!((error.line, error.kind), (1, NamesTooLong), "{}", error.message);
    let text = "ASK { ?s a|a|a 1, 2, 3 }";
    let signs = |path_signs| ParseOptions { path_signs, ..ParseOptions::default() };
    let error = parse_with(text, &signs(0)).err().unwrap();
    assert_eq!((error.line, error.kind), (1, TooManySigns), "{}", error.message);
    assert!(parse_with(text, &signs(10)).is_ok());
    let (iri, path) = ("b".repeat(200), paths(20));
    for text in [
        format!("PREFIX p: <http://e/{iri}> ASK {{ VALUES ?x {{ {} }} }}", names("p:b ", 10_000)),
        format!("BASE <http://e/{iri}/> ASK {{ VALUES ?x {{ {} }} }}", names("<b> ", 10_000)),
        format!("BASE <http://e/{long}/> ASK {{ VALUES ?x {{ {} }} }}", names("<http://e/b> ", 10_000)),
        // The subject and the predicate are not repeated for each object.
        format!("ASK {{ <http://e/{long}> <http://e/{long}> {}1 }}", names("1,", 50_000)),
        format!("ASK {{ ?s {path}a {}1 }}", names("1,", 800)),
    ] {
        assert!(parse(&text).is_ok(), "{}: {}", &text[..60], parse(&text).err().unwrap());
    }
}

#[test]
fn signs_in_strings_iris_and_comments_are_no_brackets() {
    let many = "((({{{[[[||||".repeat(1000);
    assert!(parse(&format!("ASK {{ ?s ?p '{many}', \"{many}\", '''{many}'{many}''' }} # {many}")).is_ok());
    assert!(parse(&format!("ASK {{ ?s ?p <http://e/{}> }}", "((--".repeat(1000))).is_ok());
}

#[test]
fn a_text_has_so_many_bytes_at_most() {
    let limit = ParseOptions { bytes: 20, ..ParseOptions::default() };
    assert!(parse_with("ASK { }", &limit).is_ok());
    let error = parse_with("ASK { ?s ?p ?o . ?o ?q ?s }", &limit).err().unwrap();
    assert_eq!(error.to_string(), "the query has 27 bytes; at most 20 are read");
    assert_eq!(error.kind, QueryErrorKind::TooLong);
}

/// What happened: the error pointed to the first character of the text, far from the mistake.
#[test]
fn a_base_that_is_no_iri_is_no_mistake_of_the_text() {
    let options = ParseOptions { base: Some("here"), ..ParseOptions::default() };
    let error = parse_with("ASK { }", &options).err().unwrap();
    assert_eq!((error.line, error.column, &error.kind), (0, 0, &QueryErrorKind::WrongBase));
    assert!(error.to_string().starts_with("the base `here` is no absolute IRI"), "{error}");
}

#[test]
fn iris_with_signs_in_them_are_read() {
    for text in [
        "ASK { <http://e/a,b> <http://e/(p)> <http://e/c&&d> }",
        "ASK { ?s <http://e/p(1)>/^<http://e/p,2>|!(<http://e/p&3>|^<http://e/p(4)>) ?o }",
        "ASK { ?s ?p (<http://e/a,b> 1 <http://e/(c)>) }",
        "ASK { ?s ?p ?o FILTER (?o = <http://e/a,b>) FILTER (?o IN (<http://e/(a)>, <http://e/b&&c>)) }",
        "ASK { ?s ?p ?o FILTER (<http://e/a,b>=?o&&<http://e/(b)>!=?s) }",
        "ASK { ?s ?p ?o FILTER (?o != '<?a&&?b>' && ?s != \"\"\"it's <a,b>\"\"\") } # FILTER (?x<?a&&?b>?y)",
        "PREFIX : <http://e/> ASK { ?s :a\\(b\\,c ?o FILTER (?o != :d\\)) }",
        "BASE <http://e/(x)> ASK { ?s ?p ?o FILTER (?o = <a,b>) }",
        "ASK { ?x ?y ?a, ?b FILTER (?x < ?a&&?b>?y) }",
        "ASK { ?x ?p ?y FILTER (?x<3) FILTER (?y>3) }",
        "ASK { ?x ?p ?y FILTER (?x<3&&?y<4) }",
        "ASK { ?x ?p ?y FILTER (?x <= 3||?y>3) }",
        "SELECT (IF(?x<3, ?x>2, ?y) AS ?z) { ?x ?p ?y }",
    ] {
        assert!(parse(text).is_ok(), "{text}: {}", parse(text).err().unwrap());
    }
}

#[test]
fn an_iri_between_two_expressions_is_an_error_at_its_place() {
    for (text, place, token) in [
        ("ASK { ?x ?y ?a, ?b .\n FILTER (?x<?a&&?b>?y) }", (2, 12), "<?a&&?b>"),
        ("ASK { ?x ?p ?y FILTER(?x<3)FILTER(?y>3) }", (1, 25), "<3)FILTER(?y>"),
        ("ASK { ?x ?p ?y FILTER(?x<=3&&?y>3) }", (1, 25), "<=3&&?y>"),
        ("ASK { ?x ?p ?y FILTER(?x<?a&&?b>=3) }", (1, 25), "<?a&&?b>"),
        ("ASK { ?x ?p ?y FILTER(?x<(?y>3)) }", (1, 25), "<(?y>"),
        ("SELECT (IF(?x<3,?x>2,?y) AS ?z) { ?x ?p ?y }", (1, 14), "<3,?x>"),
        ("ASK { ?x ?p <http://e/é> FILTER(?x=<http://e/a,b>||?x<3&&?y>3) }", (1, 54), "<3&&?y>"),
    ] {
        let error = wrong(text);
        assert_eq!(((error.line, error.column), &error.kind), (place, &QueryErrorKind::Syntax), "{text}: {error}");
        assert!(error.message.starts_with(&format!("`{token}` is an IRI")), "{error}");
    }
}

/// Unicode, §23.8: the mark of UTF-8 at the beginning of a text is no part of it.
#[test]
fn a_mark_at_the_beginning_is_passed_over() {
    let read = |text: &str| crate::parse(text).map(drop).map_err(|error| (error.line, error.column));
    assert_eq!(read("\u{FEFF}ASK { ?s ?p ?o }"), Ok(()));
    assert_eq!(read("\u{FEFF}\nASK ?s"), read("\nASK ?s"));
    assert!(read("\u{FEFF}\u{FEFF}ASK { ?s ?p ?o }").is_err());
    assert!(crate::parse_update("\u{FEFF}CLEAR ALL").is_ok());
}
