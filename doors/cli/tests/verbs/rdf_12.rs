//! `--rdf-12` from a user's side: texts refused without it, and its output read again.

use crate::store::{fails, file, folder, good, quads, text};

/// A version, an annotation with a reifier, a base direction, and triple terms.
const TURTLE: &str = "VERSION \"1.2\"\nPREFIX : <http://e/>\n\
    :a :p :b ~ :r {| :source :w |} .\n\
    :c :q <<( :s :p \"x\"@en--ltr )>> .\n\
    :d :q <<( :s :p <<( :x :y :z )>> )>> .\n";

/// Their quads, by the draft of RDF 1.2 Turtle.
const QUADS: [&str; 5] = [
    "<http://e/a> <http://e/p> <http://e/b> .",
    "<http://e/c> <http://e/q> <<( <http://e/s> <http://e/p> \"x\"@en--ltr )>> .",
    "<http://e/d> <http://e/q> <<( <http://e/s> <http://e/p> <<( <http://e/x> <http://e/y> <http://e/z> )>> )>> .",
    "<http://e/r> <http://e/source> <http://e/w> .",
    "<http://e/r> <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/a> <http://e/p> <http://e/b> )>> \
        .",
];

#[test]
fn what_is_rdf_1_2_needs_the_option_and_says_so() {
    let here = folder("rdf-12-refused");
    let store = here.join("db");
    let store = text(&store);
    let data = [
        ("a.ttl", TURTLE, "a.ttl:1:1: "),
        ("b.nt", QUADS[1], "b.nt:1:"),
        ("c.nq", "<http://e/a> <http://e/p> \"x\"@en--rtl <http://e/g> .", "c.nq:1:"),
        ("d.trig", "<http://e/g> { <http://e/a> <http://e/p> <<( <http://e/a> <http://e/p> 1 )>> }", "d.trig:1:"),
    ];
    for (name, contents, place) in data {
        let path = file(&here, name, contents);
        fails(&["load", "--store", store, "--data", &path], &[place, "give --rdf-12 to read it"]);
        fails(&["query", "--data", &path, "ASK {}"], &[place, "give --rdf-12 to read it"]);
        let insert = format!("LOAD <file://{path}>");
        good(&["load", "--store", store, "--data", "/dev/null", "--syntax", "nt"]);
        let here = text(&here);
        fails(
            &["update", "--store", store, "--load-folder", here, &insert],
            &["operation 1, LOAD", place, "give --rdf-12 to read it"],
        );
        assert!(quads(store).is_empty(), "{name}: nothing has happened");
        good(&["update", "--store", store, "--load-folder", here, "--rdf-12", &insert]);
        assert!(!quads(store).is_empty(), "{name}");
        good(&["update", "--store", store, "CLEAR ALL"]);
    }
    for query in ["ASK { ?s ?p <<( ?a ?b ?c )>> }", "ASK { << ?a ?b ?c >> ?p ?o }", "ASK { ?s ?p \"x\"@en--ltr }"] {
        fails(&["query", "--store", store, query], &["line 1, column ", "SPARQL 1.2", "give --rdf-12 to read it"]);
        assert_eq!(good(&["query", "--store", store, "--rdf-12", query]), "no\n");
    }
    let insert = format!("INSERT DATA {{ {} }}", QUADS[1].trim_end_matches(" ."));
    fails(&["update", "--store", store, &insert], &["line 1, column ", "give --rdf-12 to read it"]);
    good(&["update", "--store", store, "--rdf-12", &insert]);
    assert_eq!(quads(store), [QUADS[1]], "a store that has such terms is dumped without the option");
    assert_eq!(
        good(&["query", "--store", store, "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }", "--format", "csv"]),
        "n\r\n1\r\n"
    );
}

#[test]
fn what_was_read_is_written_in_each_syntax_and_read_again() {
    let here = folder("rdf-12-written");
    let store = here.join("db");
    let store = text(&store);
    let data = file(&here, "a.ttl", TURTLE);
    assert!(good(&["load", "--store", store, "--rdf-12", "--data", &data]).contains("5 quads loaded"));
    assert_eq!(quads(store), QUADS);
    for name in ["a.nt", "a.nq", "b.ttl", "a.trig", "a.rdf", "a.nt.gz", "b.ttl.zst"] {
        let (dump, again) = (here.join(name), here.join(format!("{name}.db")));
        good(&["dump", "--store", store, "--output", text(&dump)]);
        good(&["load", "--store", text(&again), "--rdf-12", "--data", text(&dump)]);
        assert_eq!(quads(text(&again)), QUADS, "{name}");
        assert!(good(&["check", "--store", text(&again)]).contains("5 quads"), "{name}");
    }
    let dump = here.join("a.jsonld");
    fails(&["dump", "--store", store, "--output", text(&dump)], &["a.jsonld: can't be written", "JSON-LD has no way"]);
    assert!(!dump.exists(), "half a file is not left");

    // Base and delta: a change beside the base, and the same after it has been merged.
    let swap = "PREFIX : <http://e/> DELETE { ?x :q ?t } INSERT { ?x :was <<( ?o ?p ?s )>> } \
                WHERE { ?x :q ?t FILTER isTRIPLE(?t) BIND(SUBJECT(?t) AS ?s) BIND(PREDICATE(?t) AS ?p) BIND(OBJECT(?t) \
                AS ?o) }";
    good(&["update", "--store", store, "--rdf-12", swap]);
    let changed = [
        QUADS[0], // A literal and a triple term are no subject, so nothing is inserted for c and d.
        QUADS[3], QUADS[4],
    ];
    assert_eq!(quads(store), changed);
    let swap = swap.replace(":q ?t", "?y ?t");
    good(&["update", "--store", store, "--rdf-12", &swap]);
    let changed = [
        QUADS[0],
        "<http://e/r> <http://e/source> <http://e/w> .",
        "<http://e/r> <http://e/was> <<( <http://e/b> <http://e/p> <http://e/a> )>> .",
    ];
    assert_eq!(quads(store), changed);
    good(&["compact", "--store", store]);
    assert_eq!(quads(store), changed);
}

/// The forms of results are those of the drafts "SPARQL 1.2 Query Results JSON Format" and "… XML Format".
#[test]
fn results_have_triple_terms_in_each_format() {
    let here = folder("rdf-12-results");
    let data = file(&here, "a.ttl", TURTLE);
    let ask = |format: &str, query: &str| good(&["query", "--rdf-12", "--data", &data, "--format", format, query]);
    let query = "PREFIX : <http://e/> SELECT ?o { :c :q ?o }";
    assert_eq!(ask("tsv", query), "?o\n<<( <http://e/s> <http://e/p> \"x\"@en--ltr )>>\n");
    assert_eq!(ask("csv", query), "o\r\n\"<<( <http://e/s> <http://e/p> \"\"x\"\"@en--ltr )>>\"\r\n");
    let json = ask("json", query);
    let term = "{\"type\":\"triple\",\"value\":{\"subject\":{\"type\":\"uri\",\"value\":\"http://e/s\"},\
                \"predicate\":{\"type\":\"uri\",\"value\":\"http://e/p\"},\
                \"object\":{\"type\":\"literal\",\"value\":\"x\",\"xml:lang\":\"en\",\"its:dir\":\"ltr\"}}}";
    assert!(json.contains(term), "{json}");
    let xml = ask("xml", query);
    for part in [
        "<triple><subject><uri>http://e/s</uri></subject><predicate><uri>http://e/p</uri></predicate><object><literal ",
        "its:dir=\"ltr\" xml:lang=\"en\">x</literal></object></triple>",
    ] {
        assert!(xml.contains(part), "{xml}");
    }
    let functions = "PREFIX : <http://e/> SELECT (LANGDIR(?o) AS ?d) (hasLANGDIR(?o) AS ?h) (isTRIPLE(?t) AS ?i) \
                     (STRLANGDIR(\"y\", \"ar\", \"rtl\") AS ?l) (TRIPLE(:x, :y, ?o) AS ?m) { :c :q ?t BIND(OBJECT(?t) \
                     AS ?o) }";
    assert_eq!(
        ask("tsv", functions),
        "?d\t?h\t?i\t?l\t?m\n\"ltr\"\ttrue\ttrue\t\"y\"@ar--rtl\t<<( <http://e/x> <http://e/y> \"x\"@en--ltr )>>\n"
    );
    let pattern = "PREFIX : <http://e/> SELECT ?x ?s ?o { ?x :q <<( ?s :p ?o )>> FILTER(!isTRIPLE(?o)) }";
    assert_eq!(ask("tsv", pattern), "?x\t?s\t?o\n<http://e/c>\t<http://e/s>\t\"x\"@en--ltr\n");
    let annotated = "PREFIX : <http://e/> SELECT ?r ?w { :a :p :b ~ ?r {| :source ?w |} }";
    assert_eq!(ask("tsv", annotated), "?r\t?w\n<http://e/r>\t<http://e/w>\n");
}

/// What happened: an update with a triple term of 65 levels was acknowledged, and the store was never opened again.
#[test]
fn triple_terms_of_more_than_64_levels_are_refused_wherever_they_come_from() {
    let here = folder("rdf-12-deep");
    let store = here.join("db");
    let store = text(&store);
    let data = file(&here, "a.nt", "<http://e/a> <http://e/p> <http://e/b> .\n");
    good(&["load", "--store", store, "--data", &data]);
    let nested = |levels: usize| {
        let (opening, closing) = ("<<( <http://e/s> <http://e/p> ".repeat(levels), " )>>".repeat(levels));
        format!("{opening}<http://e/o>{closing}")
    };
    // By the functions, each level is a BIND of its own.
    let made = |levels: usize| {
        let binds = (1..=levels).map(|n| {
            format!(
                "BIND(TRIPLE(<http://e/s>, <http://e/p>, {}) AS ?t{n}) ",
                if n == 1 { "1".to_owned() } else { format!("?t{}", n - 1) }
            )
        });
        format!("INSERT {{ <http://e/made> <http://e/q> ?t{levels} }} WHERE {{ {} }}", binds.collect::<String>())
    };
    let updates: [&dyn Fn(usize) -> String; 7] = [
        &|levels| format!("INSERT DATA {{ <http://e/data> <http://e/q> {} }}", nested(levels)),
        &|levels| format!("INSERT {{ <http://e/where> <http://e/q> {} }} WHERE {{}}", nested(levels)),
        &|levels| {
            format!("INSERT {{ <http://e/values> <http://e/q> ?t }} WHERE {{ VALUES ?t {{ {} }} }}", nested(levels))
        },
        &|levels| format!("INSERT {{ <http://e/bind> <http://e/q> ?t }} WHERE {{ BIND({} AS ?t) }}", nested(levels)),
        &|levels| format!("INSERT DATA {{ << <http://e/s> <http://e/p> {} >> <http://e/q> 1 }}", nested(levels - 1)),
        &|levels| format!("INSERT DATA {{ <http://e/s> <http://e/p> {} {{| <http://e/q> 2 |}} }}", nested(levels - 1)),
        &|levels| {
            format!(
                "INSERT {{ <http://e/template> <http://e/q> <<( ?s <http://e/p> {} )>> }} WHERE {{ ?s <http://e/p> \
                    <http://e/b> }}",
                nested(levels - 1)
            )
        },
    ];
    for update in updates {
        good(&["update", "--store", store, "--rdf-12", &update(64)]);
        let before = quads(store);
        for levels in [65, 66, 90] {
            let error = ["line 1, column ", "more than 64 levels deep"];
            fails(&["update", "--store", store, "--rdf-12", &update(levels)], &error);
        }
        assert_eq!(quads(store), before);
    }
    good(&["update", "--store", store, "--rdf-12", &made(64)]);
    let before = quads(store);
    // A function with an error as its value: there is none, and no quad (SPARQL 1.1, section 10.1).
    good(&["update", "--store", store, "--rdf-12", &made(65)]);
    let turtle = file(&here, "deep.nt", &format!("<http://e/doc> <http://e/q> {} .\n", nested(65)));
    let load = format!("LOAD <file://{turtle}>");
    fails(
        &["update", "--store", store, "--rdf-12", "--load-folder", text(&here), &load],
        &["more than 64 levels deep"],
    );
    fails(&["load", "--store", store, "--rdf-12", "--data", &turtle], &["more than 64 levels deep"]);
    assert_eq!(quads(store), before);
    good(&["compact", "--store", store]);
    good(&["check", "--store", store]);
    assert_eq!(quads(store), before);
}
