//! A shop of products, offers and reviews, and short queries about it.
//!
//! It has the shape of the Berlin SPARQL Benchmark (Bizer and Schultz, "The Berlin SPARQL benchmark", IJSWIS 2009):
//! products with a type, features, a producer and numbers, offers by vendors, reviews by people. It is not that
//! benchmark's data: names and distributions are simpler, so numbers can't be compared with published ones. The queries
//! have the shapes of its explore mix, and of WatDiv's L, S and F (Aluç et al., "Diversified stress testing of RDF data
//! management systems", ISWC 2014): lines, stars, snowflakes.
//!
//! [`prices_and_ratings`] adds data for the benchmark's business intelligence use case (version 3.1 of its
//! specification, 2011); `doors/cli/queries/shop` has such queries.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::RngCore;
use std::fmt::Write as _;

/// Offers, and below reviews, of each product.
const OFFERS: u64 = 4;
const REVIEWS: u64 = 2;
/// How many features are drawn for each product; a feature drawn twice counts once.
const FEATURES: u64 = 6;

/// N-Triples about this many products, about 50 triples for each, without duplicates.
pub(crate) fn triples(products: u64, seed: u64) -> String {
    let mut chance = Pcg64::new(u128::from(seed), 1);
    let mut below = |end: u64| chance.next_u64() % end.max(1);
    let mut text = String::new();
    let (types, features, producers) = (products / 20 + 1, products / 4 + 10, products / 25 + 1);
    let (vendors, people) = (products / 50 + 1, products / 5 + 1);
    let number = |value: u64| format!("\"{value}\"^^<http://www.w3.org/2001/XMLSchema#integer>");
    let mut add = |subject: &str, predicate: &str, object: &str| {
        let rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
        let rdfs = "http://www.w3.org/2000/01/rdf-schema#label";
        let _ = match predicate {
            "a" => writeln!(text, "<http://shop/{subject}> <{rdf}> {object} ."),
            "label" => writeln!(text, "<http://shop/{subject}> <{rdfs}> {object} ."),
            _ => writeln!(text, "<http://shop/{subject}> <http://shop/{predicate}> {object} ."),
        };
    };
    let node = |kind: &str, number: u64| format!("<http://shop/{kind}{number}>");
    for (kind, count) in [("feature", features), ("producer", producers), ("vendor", vendors), ("person", people)] {
        for one in 0..count {
            let name = format!("{kind}{one}");
            add(&name, "label", &format!("\"the {kind} {one}\""));
            add(&name, "country", &node("country", below(10)));
        }
    }
    for product in 0..products {
        let name = format!("product{product}");
        add(&name, "a", &node("type", below(types)));
        add(&name, "a", "<http://shop/Product>");
        add(&name, "label", &format!("\"product {} {product}\"", below(1000)));
        add(&name, "comment", &format!("\"what is said of the product {product} in some words\""));
        add(&name, "producer", &node("producer", below(producers)));
        let mut drawn: Vec<u64> = (0..FEATURES).map(|_| below(features)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        drawn.into_iter().for_each(|feature| add(&name, "feature", &node("feature", feature)));
        for property in 1..=3 {
            add(&name, &format!("number{property}"), &number(below(2000)));
            add(&name, &format!("text{property}"), &format!("\"text {}\"", below(5000)));
        }
        for offer in 0..OFFERS {
            let offer = format!("offer{}", product * OFFERS + offer);
            add(&offer, "product", &node("product", product));
            add(&offer, "vendor", &node("vendor", below(vendors)));
            add(&offer, "price", &number(100 + below(9000)));
            add(&offer, "days", &number(1 + below(14)));
            add(&offer, "from", &number(20_080_000 + below(1000)));
        }
        for review in 0..REVIEWS {
            let review = format!("review{}", product * REVIEWS + review);
            add(&review, "reviewFor", &node("product", product));
            add(&review, "reviewer", &node("person", below(people)));
            add(&review, "title", &format!("\"review {}\"", below(9000)));
            add(&review, "text", &format!("\"{}\"", "words and words ".repeat(3)));
            add(&review, "date", &number(20_080_000 + below(1000)));
            add(&review, "rating", &number(1 + below(10)));
        }
    }
    text
}

/// N-Triples about the offers and reviews of [`triples`]: prices in a currency, moments, and up to four ratings of a
/// review.
pub(crate) fn prices_and_ratings(products: u64, seed: u64) -> String {
    let mut chance = Pcg64::new(u128::from(seed), 3);
    let mut below = |end: u64| chance.next_u64() % end;
    let mut text = String::new();
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    // Within three years; seconds with or without a fraction of three digits.
    let moment = |below: &mut dyn FnMut(u64) -> u64| {
        let (year, month, day) = (2006 + below(3), 1 + below(12), 1 + below(28));
        let (hour, minute, second, part) = (below(24), below(60), below(60), below(2000));
        let fraction = if part < 1000 { format!(".{part:03}") } else { String::new() };
        format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}")
    };
    for offer in 0..products * OFFERS {
        let (whole, cents, at) = (5 + below(9990), below(100), moment(&mut below));
        let _ =
            writeln!(text, "<http://shop/offer{offer}> <http://shop/cost> \"{whole}.{cents:02}\"^^<http://shop/USD> .");
        let _ = writeln!(text, "<http://shop/offer{offer}> <http://shop/since> \"{at}\"^^<{xsd}dateTime> .");
    }
    for review in 0..products * REVIEWS {
        for number in 1..=4 {
            let rating = 1 + below(10);
            if below(10) < 7 {
                let name = format!("<http://shop/review{review}> <http://shop/rating{number}>");
                let _ = writeln!(text, "{name} \"{rating}\"^^<{xsd}integer> .");
            }
        }
        let at = moment(&mut below);
        let _ = writeln!(text, "<http://shop/review{review}> <http://shop/at> \"{at}\"^^<{xsd}dateTime> .");
    }
    text
}

/// Names and texts; `%P` stands for a product's number, `%F` for a feature's, `%T` for a type's.
const QUERIES: [(&str, &str); 15] = [
    (
        "explore 1",
        "SELECT DISTINCT ?p ?l { ?p rdfs:label ?l ; a :type%T ; :feature :feature%F ; :number1 ?n FILTER (?n > 500) } \
            ORDER BY ?l LIMIT 10",
    ),
    (
        "explore 2",
        "SELECT ?l ?c ?f ?t1 ?t2 ?n1 ?n2 ?t3 { :product%P rdfs:label ?l ; :comment ?c ; :producer ?p . ?p rdfs:label \
            ?q . \
         :product%P :feature ?x . ?x rdfs:label ?f . :product%P :text1 ?t1 ; :text2 ?t2 ; :number1 ?n1 ; :number2 ?n2 \
         OPTIONAL { :product%P :text3 ?t3 } }",
    ),
    (
        "explore 3",
        "SELECT ?p ?l { ?p rdfs:label ?l ; a :type%T ; :feature :feature%F ; :number1 ?n ; :number3 ?m FILTER (?n > \
            300 && ?m < 1500) \
         OPTIONAL { ?p :feature :feature0 ; rdfs:label ?z } FILTER (!bound(?z)) } ORDER BY ?l LIMIT 10",
    ),
    (
        "explore 4",
        "SELECT DISTINCT ?p ?l ?t { { ?p rdfs:label ?l ; a :type%T ; :feature :feature%F ; :text1 ?t ; :number1 ?n \
            FILTER (?n > 300) } \
         UNION { ?p rdfs:label ?l ; a :type%T ; :feature :feature1 ; :text1 ?t ; :number2 ?n FILTER (?n > 900) } } \
         ORDER BY ?l OFFSET 5 LIMIT 10",
    ),
    (
        "explore 5",
        "SELECT DISTINCT ?p ?l { ?p rdfs:label ?l FILTER (:product%P != ?p) :product%P :feature ?f . ?p :feature ?f . \
         :product%P :number1 ?a . ?p :number1 ?b FILTER (?b < (?a + 120) && ?b > (?a - 120)) \
         :product%P :number2 ?c . ?p :number2 ?d FILTER (?d < (?c + 170) && ?d > (?c - 170)) } ORDER BY ?l LIMIT 5",
    ),
    (
        "explore 7",
        "SELECT ?l ?o ?price ?v ?r ?t ?n ?name ?rating { :product%P rdfs:label ?l \
         OPTIONAL { ?o :product :product%P ; :price ?price ; :vendor ?v . ?v rdfs:label ?vl ; :country :country3 . ?o \
         :from ?d FILTER (?d > 20080100) } \
         OPTIONAL { ?r :reviewFor :product%P ; :reviewer ?n . ?n rdfs:label ?name . ?r :title ?t OPTIONAL { ?r :rating \
         ?rating } } }",
    ),
    (
        "explore 8",
        "SELECT ?t ?x ?d ?n ?name ?a ?b { ?r :reviewFor :product%P ; :title ?t ; :text ?x ; :date ?d ; :reviewer ?n . \
            ?n rdfs:label ?name \
         OPTIONAL { ?r :rating ?a } OPTIONAL { ?r :other ?b } } ORDER BY DESC(?d) LIMIT 20",
    ),
    (
        "explore 10",
        "SELECT DISTINCT ?o ?p { ?o :product :product%P ; :vendor ?v . ?v :country :country1 . ?o :days ?d ; :price ?p \
            FILTER (?d <= 7) } \
         ORDER BY ?p LIMIT 10",
    ),
    ("explore 11", "SELECT ?p ?v ?is { { :offer%P ?p ?v } UNION { ?is ?p :offer%P } }"),
    (
        "explore 12",
        "SELECT ?l ?v ?w ?price { :offer%P :product ?p . ?p rdfs:label ?l . :offer%P :vendor ?v . ?v rdfs:label ?w . \
            :offer%P :price ?price }",
    ),
    ("point", "SELECT ?l { :product%P rdfs:label ?l }"),
    ("line", "SELECT ?x ?y ?l { :product%P :producer ?x . ?x :country ?y . ?x rdfs:label ?l }"),
    ("star", "SELECT ?a ?b ?c ?d { ?p :feature :feature%F ; :producer ?a ; :number1 ?b ; rdfs:label ?c ; :text1 ?d }"),
    (
        "snowflake",
        "SELECT ?p ?o ?v ?r ?n { ?p a :type%T ; :feature :feature%F ; rdfs:label ?l . ?o :product ?p ; :vendor ?v ; \
            :price ?c . \
         ?r :reviewFor ?p ; :reviewer ?n . ?n :country ?y }",
    ),
    ("ask", "ASK { ?o :product :product%P ; :price ?p FILTER (?p < 5000) }"),
];

/// The queries, each with `each` different constants.
pub(super) fn queries(products: u64, each: usize, seed: u64) -> Vec<(&'static str, Vec<String>)> {
    let mut chance = Pcg64::new(u128::from(seed), 2);
    let mut below = |end: u64| (chance.next_u64() % end.max(1)).to_string();
    let prefixes = "PREFIX : <http://shop/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> ";
    let mut text = |query: &str| {
        let query = query.replace("%P", &below(products)).replace("%T", &below(products / 20 + 1));
        prefixes.to_owned() + &query.replace("%F", &below(products / 4 + 10))
    };
    QUERIES.iter().map(|(name, query)| (*name, (0..each).map(|_| text(query)).collect())).collect()
}
