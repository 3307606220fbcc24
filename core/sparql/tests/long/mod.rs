//! Texts with a single kind of length each.

use std::fmt::Write as _;

/// A construct, as a name and a text with so many of it.
pub(crate) struct Long {
    pub(crate) name: &'static str,
    pub(crate) text: fn(usize) -> String,
}

/// Each number's text, one after the other.
fn each(count: usize, mut one: impl FnMut(&mut String, usize)) -> String {
    let mut text = String::new();
    (0..count).for_each(|number| one(&mut text, number));
    text
}

macro_rules! each {
    ($count:expr, $text:literal) => {
        $text.repeat($count)
    };
    ($count:expr, $n:ident, $($text:tt)+) => {
        each($count, |text, $n| write!(text, $($text)+).expect("a string takes everything"))
    };
}

macro_rules! long {
    ($($name:literal: |$count:ident| $text:expr;)+) => {
        /// All constructs.
        pub(crate) const ALL: &[Long] = &[$(Long { name: $name, text: |$count| $text },)+];
    };
}

long! {
    "triples in a chain": |c| format!("SELECT * {{ {} }}", each!(c, n, "?v{n} <a:p> ?v{}.", n + 1));
    "triples in a chain, ASK": |c| format!("ASK {{ {} }}", each!(c, n, "?v{n} <a:p> ?v{}.", n + 1));
    "triples in a star": |c| format!("SELECT * {{ {} }}", each!(c, n, "?s <a:p> ?v{n}."));
    "triples in a star, one column": |c| format!("SELECT ?s {{ {} }}", each!(c, n, "?s <a:p> ?v{n}."));
    "triples apart": |c| format!("SELECT * {{ {} }}", each!(c, n, "?s{n} <a:p> ?v{n}."));
    "the same triple": |c| format!("SELECT * {{ {} }}", each!(c, "?s ?p ?o."));
    "constant triples": |c| format!("SELECT * {{ {} }}", each!(c, n, "<a:s> <a:p> <a:o{n}>."));
    "predicates as variables": |c| format!("SELECT * {{ {} }}", each!(c, n, "?s ?p{n} ?o."));
    "OPTIONAL in a row": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "OPTIONAL{{?s <a:p> ?v{n}}}"));
    "OPTIONAL in a row, one column": |c| format!("SELECT ?s {{ ?s ?p ?o {} }}", each!(c, n, "OPTIONAL{{?s <a:p> \
        ?v{n}}}"));
    "OPTIONAL in a row, the same": |c| format!("SELECT * {{ {} }}", each!(c, "OPTIONAL{?s ?p ?o}"));
    "OPTIONAL of two": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "OPTIONAL{{?s <a:p> ?v{n}. ?v{n} <a:p> \
        ?w{n}}}"));
    "OPTIONAL nested": |c| format!("SELECT * {{ ?v <a:p> ?v0 {}{} }}", each!(c, n, "OPTIONAL{{?v{n} <a:p> \
        ?v{} ", n + 1), each!(c, "}"));
    "OPTIONAL with FILTER": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "OPTIONAL{{?s <a:p> ?v{n} \
        FILTER(?v{n}<?o)}}"));
    "OPTIONAL beside many": |c| {
        format!("SELECT * {{ {} {} }}", each!(c, n, "?s <a:p> ?v{n}."), each!(c.min(400), n, "OPTIONAL{{?v{n} <a:p> \
            ?w{n}}}"))
    };
    "UNION": |c| format!("SELECT * {{ {{}} {} }}", each!(c, n, "UNION{{?s <a:p> ?v{n}}}"));
    "UNION of the same": |c| format!("SELECT * {{ {{}} {} }}", each!(c, "UNION{?s ?p ?o}"));
    "UNION nested": |c| format!("SELECT * {{ {} ?s ?p ?o {} \
        }}", each!(c, n, "{{?s <a:p> ?v{n}}}UNION{{"), each!(c, "}"));
    "UNION in a row": |c| format!("SELECT * {{ {} }}", each!(c, n, "{{?s <a:p> ?v{n}}}UNION{{?v{n} <a:p> ?s}}"));
    "groups in a row": |c| format!("SELECT * {{ {} }}", each!(c, n, "{{?s <a:p> ?v{n} FILTER(?v{n}<?s)}}"));
    "MINUS in a row": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "MINUS{{?s <a:p> ?v{n}}}"));
    "MINUS nested": |c| format!("SELECT * {{ ?s ?p ?o {}{} }}", each!(c, n, "MINUS{{?s <a:p> ?v{n} "), each!(c, "}"));
    "FILTER": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "FILTER(?o<{n})"));
    "FILTER of many variables": |c| format!("SELECT * {{ {} {} \
        }}", each!(c, n, "?s <a:p> ?v{n}."), each!(c, n, "FILTER(?v{n}<1)"));
    "FILTER equals": |c| format!("SELECT * {{ {} {} \
        }}", each!(c, n, "?s <a:p> ?v{n}."), each!(c, n, "FILTER(?v{n}=<a:o>)"));
    "FILTER joins": |c| format!("SELECT * {{ {} {} \
        }}", each!(c, n, "?s{n} <a:p> ?v{n}."), each!(c, n, "FILTER(?v{n}=?s{})", n + 1));
    "conjunction": |c| format!("SELECT * {{ ?s ?p ?o FILTER(?o<1 {}) }}", each!(c, n, "&&?o<{n}"));
    "disjunction": |c| format!("SELECT * {{ ?s ?p ?o FILTER(?o<1 {}) }}", each!(c, n, "||?o<{n}"));
    "sum": |c| format!("SELECT (1{} AS ?x) {{ }}", each!(c, n, "+{n}"));
    "brackets": |c| format!("SELECT * {{ ?s ?p ?o FILTER{}1{} }}", each!(c, "("), each!(c, ")"));
    "EXISTS in a row": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "FILTER EXISTS{{?s <a:p{n}> ?v}}"));
    "NOT EXISTS in a row": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "FILTER NOT EXISTS{{?s <a:p{n}> \
        ?v}}"));
    "EXISTS with many variables": |c| {
        format!("SELECT * {{ {} {} }}", each!(c, n, "?s <a:p> ?v{n}."), each!(c, n, "FILTER EXISTS{{?v{n} <a:p> ?w}}"))
    };
    "EXISTS nested": |c| format!("SELECT * {{ ?v <a:p> ?v0 {}{} }}", each!(c, n, "FILTER EXISTS{{?v{n} <a:p> \
        ?v{} ", n + 1), each!(c, "}"));
    "EXISTS in a disjunction": |c| {
        format!("SELECT * {{ ?s ?p ?o FILTER(?o<1 {}) }}", each!(c, n, "||EXISTS{{?s <a:p{n}> ?o}}"))
    };
    "EXISTS that looks outside": |c| {
        format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "FILTER EXISTS{{{{?s <a:p{n}> ?v FILTER(?v<?o)}}UNION{{}}}}"))
    };
    "BIND": |c| format!("SELECT * {{ ?s ?p ?o {} }}", each!(c, n, "BIND(?o+{n} AS ?v{n})"));
    "BIND of BIND": |c| format!("SELECT * {{ ?s ?p ?v0 {} }}", each!(c, n, "BIND(?v{n}+1 AS ?v{})", n + 1));
    "BIND and FILTER": |c| format!("SELECT ?s {{ ?s ?p ?o {} }}", each!(c, n, "BIND(?o+{n} AS ?v{n}) FILTER(?v{n}<1)"));
    "rows of VALUES": |c| format!("SELECT * {{ VALUES (?x ?y) {{ {} }} }}", each!(c, n, "(1 {n})"));
    "strings in VALUES": |c| format!("SELECT * {{ VALUES ?x {{ {} }} ?s ?p ?x }}", each!(c, n, "'{n}'"));
    "columns of VALUES": |c| format!("SELECT * {{ VALUES ({}) {{ ({}) }} \
        }}", each!(c, n, "?v{n} "), each!(c, n, "{n} "));
    "VALUES in a row": |c| format!("SELECT * {{ {} }}", each!(c, n, "VALUES ?v{n} {{1 2}}"));
    "VALUES of the same": |c| format!("SELECT * {{ {} }}", each!(c, "VALUES ?v {1 2}"));
    "wide VALUES joined": |c| {
        let columns = each!(c, n, "?v{n} ");
        let row = each!(c, n, "{n} ");
        format!("SELECT * {{ VALUES ({columns}) {{ ({row}) }} VALUES ({columns}) {{ ({row}) }} }}")
    };
    "IN": |c| format!("SELECT * {{ ?s ?p ?o FILTER(?o IN(1{})) }}", each!(c, n, ",{n}"));
    "sub-selects in a row": |c| format!("SELECT * {{ {} }}", each!(c, n, "{{SELECT ?s{{?s <a:p> ?v{n}}}}}"));
    "sub-selects nested": |c| format!("SELECT * {{ {} ?s ?p ?o {} }}", each!(c, n, "{{SELECT*{{?s <a:p> \
        ?v{n}."), each!(c, "}}"));
    "sub-selects with LIMIT": |c| format!("SELECT * {{ {} }}", each!(c, n, "{{SELECT*{{?s <a:p> ?v{n}}}LIMIT 1}}"));
    "sub-selects with many columns": |c| {
        let star = each!(c, n, "?s <a:p> ?v{n}.");
        format!("SELECT * {{ {{SELECT DISTINCT * {{ {star} }} }} {{SELECT DISTINCT * {{ {star} }} }} }}")
    };
    "sub-selects nested beside many": |c| {
        let star = each!(c, n, "?s <a:p> ?v{n}.");
        let levels = c.min(300);
        format!("SELECT * {{ {} {star} {} }}", each!(levels, "{SELECT*{"), each!(levels, "}}"))
    };
    "OPTIONAL nested of many": |c| {
        let many = each!(60, n, "?s <a:p> ?v{n}.");
        format!("SELECT * {{ {}{} }}", format!("{many} OPTIONAL{{").repeat(c), each!(c, "}"))
    };
    "OPTIONAL of all": |c| format!("SELECT * {{ {} }}", each!(c, n, "OPTIONAL{{?s{n} ?p{n} ?o{n}}}"));
    "SELECT backwards": |c| {
        let names: String = (0..c).rev().map(|n| format!("?v{n} ")).collect();
        format!("SELECT {names} {{ {} }}", each!(c, n, "?s <a:p> ?v{n}."))
    };
    "SELECT backwards of VALUES": |c| {
        let names: String = (0..c).rev().map(|n| format!("?v{n} ")).collect();
        format!("SELECT {names} {{ {} }}", each!(c, n, "VALUES ?v{n} {{1}}"))
    };
    "DISTINCT nested": |c| format!("SELECT * {{ {} ?s ?p ?o {} }}", each!(c, "{SELECT DISTINCT*{"), each!(c, "}}"));
    "sequence": |c| format!("SELECT * {{ ?s <a:p>{} ?o }}", each!(c, "/<a:p>"));
    "alternatives": |c| format!("SELECT * {{ ?s <a:p>{} ?o }}", each!(c, n, "|<a:p{n}>"));
    "alternatives of sequences": |c| format!("SELECT * {{ ?s <a:p>{} ?o }}", each!(c, "/(<a:p>|<a:q>)"));
    "negated set": |c| format!("SELECT * {{ ?s !(<a:p>{}) ?o }}", each!(c, n, "|<a:p{n}>"));
    "walk of a sequence": |c| format!("SELECT * {{ ?s (<a:p>{})+ ?o }}", each!(c, "/<a:p>"));
    "walk of alternatives": |c| format!("SELECT * {{ ?s (<a:p>{})+ ?o }}", each!(c, n, "|<a:p{n}>"));
    "walk of a negated set": |c| format!("SELECT * {{ ?s (!(<a:p>{}))* ?o }}", each!(c, n, "|<a:p{n}>"));
    "walk of walks": |c| format!("SELECT * {{ ?s {}<a:p>{} ?o }}", each!(c, "("), each!(c, "*)"));
    "walk of optional steps": |c| format!("SELECT * {{ ?s (<a:p>?{})+ ?o }}", each!(c, "/<a:p>?"));
    "walks in a chain": |c| format!("SELECT * {{ {} }}", each!(c, n, "?v{n} <a:p>+ ?v{}.", n + 1));
    "walks apart": |c| format!("SELECT * {{ {} }}", each!(c, n, "?s{n} <a:p>* ?v{n}."));
    "GROUP BY": |c| format!("SELECT (COUNT(*) AS ?n) {{ {} }} GROUP BY \
        {}", each!(c, n, "?s <a:p> ?v{n}."), each!(c, n, "?v{n} "));
    "GROUP BY what is not there": |c| format!("SELECT (COUNT(*) AS ?n) {{ ?s ?p ?o }} GROUP BY \
        {}", each!(c, n, "?v{n} "));
    "GROUP BY and SELECT": |c| {
        let keys = each!(c, n, "?v{n} ");
        format!("SELECT {keys} {{ VALUES ({keys}) {{ }} }} GROUP BY {keys}")
    };
    "GROUP BY expressions": |c| format!("SELECT (COUNT(*) AS ?n) {{ ?s ?p ?o }} GROUP BY {}", each!(c, n, "(?o+{n})"));
    "ORDER BY": |c| format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", each!(c, "?o "));
    "ORDER BY expressions": |c| format!("SELECT * {{ ?s ?p ?o }} ORDER BY {}", each!(c, n, "(?o+{n})"));
    "ORDER BY many variables": |c| {
        let names = each!(c, n, "?v{n} ");
        format!("SELECT * {{ VALUES ({names}) {{ }} }} ORDER BY {names}")
    };
    "aggregates": |c| format!("SELECT {} {{ ?s ?p ?o }}", each!(c, n, "(SUM(?o+{n}) AS ?v{n})"));
    "aggregates of the same": |c| format!("SELECT {} {{ ?s ?p ?o }}", each!(c, n, "(SUM(?o) AS ?v{n})"));
    "counts of many": |c| {
        format!("SELECT {} {{ {} }}", each!(c, n, "(COUNT(?v{n}) AS ?c{n})"), each!(c, n, "?s <a:p> ?v{n}."))
    };
    "samples": |c| {
        let names = each!(c, n, "?v{n} ");
        format!("SELECT {} {{ VALUES ({names}) {{ }} }} GROUP BY ?g", each!(c, n, "(MAX(?v{n}) AS ?c{n})"))
    };
    "HAVING": |c| format!("SELECT ?s {{ ?s ?p ?o }} GROUP BY ?s HAVING {}", each!(c, n, "(SUM(?o+{n})<1)"));
    "SELECT of expressions": |c| format!("SELECT {} {{ ?s ?p ?o }}", each!(c, n, "(?o+{n} AS ?v{n})"));
    "SELECT of what is not there": |c| format!("SELECT {} {{ }}", each!(c, n, "?v{n} "));
    "SELECT of many": |c| format!("SELECT {} {{ {} }}", each!(c, n, "?v{n} "), each!(c, n, "?s <a:p> ?v{n}."));
    "blank nodes": |c| format!("SELECT * {{ {} }}", each!(c, n, "_:b{n} <a:p> _:b{}.", n + 1));
    "a list": |c| format!("SELECT * {{ ?s ?p ({}) }}", each!(c, "1 "));
    "objects": |c| format!("SELECT * {{ ?s ?p 1{} }}", each!(c, n, ",{n}"));
    "paths of many objects": |c| format!("SELECT * {{ ?s <a:>|<b:>|<c:> 1{} }}", each!(c, ",1"));
    "names with a long prefix": |c| {
        format!("PREFIX p:<a:{}> SELECT * {{ VALUES ?x {{ {} }} }}", "x".repeat(150), each!(c, n, "p:{n} "))
    };
    "white space": |c| format!("SELECT * {{ {} }}", " ".repeat(c));
    "CONCAT": |c| format!("SELECT (CONCAT(''{}) AS ?x) {{ }}", each!(c, ",''"));
    "COALESCE": |c| format!("SELECT (COALESCE(?o{}) AS ?x) {{ ?s ?p ?o }}", each!(c, n, ",?v{n}"));
    "IF": |c| format!("SELECT ({}1{} AS ?x) {{ ?s ?p ?o }}", each!(c, n, "IF(?o,{n},"), each!(c, ")"));
    "BNODE": |c| format!("SELECT {} {{ ?s ?p ?o }}", each!(c, n, "(BNODE(\"{n}\") AS ?v{n})"));
    "a string": |c| format!("SELECT ('{}' AS ?x) {{ }}", "x".repeat(c));
    "DESCRIBE": |c| format!("DESCRIBE {} {{ ?s ?p ?o }}", each!(c, n, "<a:{n}> "));
    "CONSTRUCT": |c| format!("CONSTRUCT {{ {} }} {{ ?s ?p ?o }}", each!(c, n, "?s <a:{n}> ?o."));
    "GRAPH": |c| format!("SELECT * {{ {} }}", each!(c, n, "GRAPH ?g{n} {{ ?s ?p ?o }} "));
}
