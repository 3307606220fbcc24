//! Users, products and offers in the schema of WatDiv, and the shapes of its linear, star and snowflake queries.
//!
//! Aluç, Hartig, Özsu and Daudjee, "Diversified stress testing of RDF data management systems", ISWC 2014; the basic
//! queries L1 to L5, S1 to S7 and F1 to F5 of its test suite. Predicates and patterns follow these; the data is from
//! our own generator, with skewed values and with predicates that only some subjects have, so times can be compared
//! between engines here only.

use super::chance::{Chance, Triples, with_prologue};
use super::{Mix, Text};

const PREFIXES: &[(&str, &str)] = &[
    ("wsdbm", "http://db.uwaterloo.ca/~galuc/wsdbm/"),
    ("sorg", "http://schema.org/"),
    ("dc", "http://purl.org/dc/terms/"),
    ("foaf", "http://xmlns.com/foaf/"),
    ("gr", "http://purl.org/goodrelations/"),
    ("gn", "http://www.geonames.org/ontology#"),
    ("mo", "http://purl.org/ontology/mo/"),
    ("og", "http://ogp.me/ns#"),
    ("rev", "http://purl.org/stuff/rev#"),
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
];

/// About how many triples are made for each user, everything else included.
const FOR_EACH_USER: u64 = 85;

/// Entities whose number does not depend on the scale.
const CITIES: u64 = 240;
const COUNTRIES: u64 = 25;
const TOPICS: u64 = 250;
const SUB_GENRES: u64 = 145;
const CATEGORIES: u64 = 15;
const LANGUAGES: u64 = 25;
const AGES: u64 = 9;

fn one(chance: &mut Chance, kind: &str, count: u64) -> String {
    format!("wsdbm:{kind}{}", chance.skewed(count))
}

fn date(chance: &mut Chance) -> String {
    format!("\"20{:02}-{:02}-{:02}\"^^xsd:date", chance.from_to(0, 20), chance.from_to(1, 12), chance.from_to(1, 28))
}

pub(crate) fn make(triples: u64, seed: u64) -> Mix {
    let chance = &mut Chance::new(seed);
    let out = &mut Triples::new(PREFIXES);
    let users = (triples / FOR_EACH_USER).max(40);
    let (products, websites, retailers) = (users / 4, users / 20, users / 80 + 2);
    let (offers, purchases, reviews) = (users * 9 / 10, users * 3 / 2, users * 3 / 2);
    for city in 0..CITIES {
        let country = chance.below(COUNTRIES);
        out.add(&format!("wsdbm:City{city}"), "gn:parentCountry", format!("wsdbm:Country{country}"));
    }
    for genre in 0..SUB_GENRES {
        let name = format!("wsdbm:SubGenre{genre}");
        out.add(&name, "rdf:type", format!("wsdbm:Genre{}", chance.below(21)));
        for _ in 0..chance.from_to(1, 8) {
            out.add(&name, "og:tag", one(chance, "Topic", TOPICS));
        }
    }
    for website in 0..websites {
        let name = format!("wsdbm:Website{website}");
        out.add(&name, "sorg:url", format!("\"http://site{website}.com/\""));
        out.add(&name, "wsdbm:hits", chance.from_to(1, 10_000_000).to_string());
        if chance.percent(50) {
            out.add(&name, "sorg:language", one(chance, "Language", LANGUAGES));
        }
    }
    for product in 0..products {
        let name = format!("wsdbm:Product{product}");
        let category = chance.below(CATEGORIES);
        out.add(&name, "rdf:type", format!("wsdbm:ProductCategory{category}"));
        out.add(&name, "og:title", format!("\"{}\"", chance.words(2, 6)));
        let texts = [("caption", 30), ("description", 60), ("keywords", 30), ("text", 30), ("contentRating", 30)];
        for (predicate, often) in texts {
            if chance.percent(often) {
                out.add(&name, &format!("sorg:{predicate}"), format!("\"{}\"", chance.words(3, 20)));
            }
        }
        if chance.percent(20) {
            out.add(&name, "sorg:contentSize", chance.from_to(1, 5000).to_string());
        }
        let things = [("foaf:homepage", "Website", websites, 25), ("sorg:language", "Language", LANGUAGES, 20)];
        for (predicate, kind, count, often) in things {
            if chance.percent(often) {
                out.add(&name, predicate, one(chance, kind, count));
            }
        }
        let rare = [("sorg:publisher", 10), ("sorg:trailer", 10), ("mo:conductor", 5), ("mo:artist", 10)];
        for (predicate, often) in rare {
            if chance.percent(often) {
                out.add(&name, predicate, one(chance, "User", users));
            }
        }
        for _ in 0..chance.from_to(1, 4) {
            out.add(&name, "wsdbm:hasGenre", one(chance, "SubGenre", SUB_GENRES));
        }
        for _ in 0..chance.from_to(0, 6) {
            out.add(&name, "og:tag", one(chance, "Topic", TOPICS));
        }
    }
    for user in 0..users {
        let name = format!("wsdbm:User{user}");
        out.add(&name, "wsdbm:userId", chance.below(10_000_000).to_string());
        let texts = [("foaf:familyName", 30), ("foaf:givenName", 70), ("sorg:jobTitle", 5), ("sorg:email", 90)];
        for (predicate, often) in texts {
            if chance.percent(often) {
                out.add(&name, predicate, format!("\"{}\"", chance.words(1, 2)));
            }
        }
        let things = [
            ("foaf:age", "AgeGroup", AGES, 50),
            ("wsdbm:gender", "Gender", 2, 60),
            ("sorg:nationality", "Country", COUNTRIES, 20),
            ("dc:Location", "City", CITIES, 40),
            ("rdf:type", "Role", 3, 60),
        ];
        for (predicate, kind, count, often) in things {
            if chance.percent(often) {
                out.add(&name, predicate, one(chance, kind, count));
            }
        }
        let many = [
            ("wsdbm:subscribes", "Website", websites, 20, 5),
            ("wsdbm:likes", "Product", products, 25, 20),
            ("wsdbm:friendOf", "User", users, 40, 110),
            ("wsdbm:follows", "User", users, 80, 100),
        ];
        for (predicate, kind, count, often, most) in many {
            if chance.percent(often) {
                for _ in 0..chance.from_to(1, most) {
                    out.add(&name, predicate, one(chance, kind, count));
                }
            }
        }
    }
    for purchase in 0..purchases {
        let name = format!("wsdbm:Purchase{purchase}");
        out.add(&one(chance, "User", users), "wsdbm:makesPurchase", &name);
        out.add(&name, "wsdbm:purchaseFor", one(chance, "Product", products));
        if chance.percent(60) {
            out.add(&name, "wsdbm:purchaseDate", date(chance));
        }
    }
    for review in 0..reviews {
        let name = format!("wsdbm:Review{review}");
        out.add(&one(chance, "Product", products), "rev:hasReview", &name);
        out.add(&name, "rev:reviewer", one(chance, "User", users));
        out.add(&name, "rev:rating", chance.from_to(1, 10).to_string());
    }
    for offer in 0..offers {
        let name = format!("wsdbm:Offer{offer}");
        out.add(&format!("wsdbm:Retailer{}", chance.below(retailers)), "gr:offers", &name);
        out.add(&name, "gr:includes", one(chance, "Product", products));
        out.add(&name, "gr:price", chance.from_to(1, 2000).to_string());
        out.add(&name, "gr:serialNumber", chance.below(100_000_000).to_string());
        let dates = [("gr:validFrom", 40), ("gr:validThrough", 60), ("sorg:priceValidUntil", 40)];
        for (predicate, often) in dates {
            if chance.percent(often) {
                out.add(&name, predicate, date(chance));
            }
        }
        out.add(&name, "sorg:eligibleQuantity", chance.from_to(1, 50).to_string());
        for _ in 0..5 {
            out.add(&name, "sorg:eligibleRegion", format!("wsdbm:Country{}", chance.below(COUNTRIES)));
        }
    }
    let counts: Vec<(&str, u64)> = vec![
        ("Website", websites),
        ("City", CITIES),
        ("Topic", TOPICS),
        ("SubGenre", SUB_GENRES),
        ("Retailer", retailers),
        ("Country", COUNTRIES),
        ("ProductCategory", CATEGORIES),
        ("AgeGroup", AGES),
        ("User", users),
    ];
    let fill: Text = Box::new(move |text, chance| {
        let (kind, count) = counts.iter().find(|(kind, _)| text.contains(&format!("%{kind}%"))).expect("it has one");
        let chosen = format!("wsdbm:{kind}{}", chance.below(*count));
        with_prologue(PREFIXES, &text.replace(&format!("%{kind}%"), &chosen))
    });
    let queries = QUERIES.iter().map(|&(name, text)| (name, text)).collect();
    Mix { name: "WatDiv L, S, F", triples: std::mem::take(&mut out.text), count: out.count, queries, fill }
}

/// `%Website%` stands for one of the websites, and so on.
const QUERIES: [(&str, &str); 17] = [
    ("L1", "SELECT ?u ?p ?c { ?u wsdbm:subscribes %Website% . ?p sorg:caption ?c . ?u wsdbm:likes ?p }"),
    ("L2", "SELECT ?c ?u { %City% gn:parentCountry ?c . ?u wsdbm:likes wsdbm:Product0 . ?u sorg:nationality ?c }"),
    ("L3", "SELECT ?u ?p { ?u wsdbm:likes ?p . ?u wsdbm:subscribes %Website% }"),
    ("L4", "SELECT ?p ?c { ?p og:tag %Topic% . ?p sorg:caption ?c }"),
    ("L5", "SELECT ?u ?j ?c { ?u sorg:jobTitle ?j . %City% gn:parentCountry ?c . ?u sorg:nationality ?c }"),
    (
        "S1",
        "SELECT ?o ?p ?a ?b ?c ?d ?e ?f ?g { ?o gr:includes ?p . %Retailer% gr:offers ?o . ?o gr:price ?a . \
         ?o gr:serialNumber ?b . ?o gr:validFrom ?c . ?o gr:validThrough ?d . ?o sorg:eligibleQuantity ?e . \
         ?o sorg:eligibleRegion ?f . ?o sorg:priceValidUntil ?g }",
    ),
    (
        "S2",
        "SELECT ?u ?l ?g { ?u dc:Location ?l . ?u sorg:nationality %Country% . ?u wsdbm:gender ?g . ?u rdf:type \
            wsdbm:Role2 }",
    ),
    (
        "S3",
        "SELECT ?p ?c ?g ?b { ?p rdf:type %ProductCategory% . ?p sorg:caption ?c . ?p wsdbm:hasGenre ?g . \
         ?p sorg:publisher ?b }",
    ),
    (
        "S4",
        "SELECT ?u ?n ?p { ?u foaf:age %AgeGroup% . ?u foaf:familyName ?n . ?p mo:artist ?u . \
         ?u sorg:nationality wsdbm:Country1 }",
    ),
    (
        "S5",
        "SELECT ?p ?d ?k { ?p rdf:type %ProductCategory% . ?p sorg:description ?d . ?p sorg:keywords ?k . \
         ?p sorg:language wsdbm:Language0 }",
    ),
    ("S6", "SELECT ?p ?c ?t { ?p mo:conductor ?c . ?p rdf:type ?t . ?p wsdbm:hasGenre %SubGenre% }"),
    ("S7", "SELECT ?p ?t ?x { ?p rdf:type ?t . ?p sorg:text ?x . %User% wsdbm:likes ?p }"),
    (
        "F1",
        "SELECT ?g ?t ?p ?r ?k { ?g og:tag %Topic% . ?g rdf:type ?t . ?p sorg:trailer ?r . ?p sorg:keywords ?k . \
         ?p wsdbm:hasGenre ?g . ?p rdf:type wsdbm:ProductCategory2 }",
    ),
    (
        "F2",
        "SELECT ?p ?w ?t ?c ?d ?u ?h { ?p foaf:homepage ?w . ?p og:title ?t . ?p rdf:type ?k . ?p sorg:caption ?c . \
         ?p sorg:description ?d . ?w sorg:url ?u . ?w wsdbm:hits ?h . ?p wsdbm:hasGenre %SubGenre% }",
    ),
    (
        "F3",
        "SELECT ?p ?r ?s ?u ?b ?d { ?p sorg:contentRating ?r . ?p sorg:contentSize ?s . ?p wsdbm:hasGenre %SubGenre% . \
         ?u wsdbm:makesPurchase ?b . ?b wsdbm:purchaseDate ?d . ?b wsdbm:purchaseFor ?p }",
    ),
    (
        "F4",
        "SELECT ?p ?w ?o ?d ?l ?h ?u ?s { ?p foaf:homepage ?w . ?o gr:includes ?p . ?p og:tag %Topic% . \
         ?p sorg:description ?d . ?p sorg:contentSize ?s . ?w sorg:url ?l . ?w wsdbm:hits ?h . \
         ?w sorg:language wsdbm:Language0 . ?u wsdbm:likes ?p }",
    ),
    (
        "F5",
        "SELECT ?o ?p ?a ?d ?t ?k { ?o gr:includes ?p . %Retailer% gr:offers ?o . ?o gr:price ?a . \
         ?o gr:validThrough ?d . ?p og:title ?t . ?p rdf:type ?k }",
    ),
];
