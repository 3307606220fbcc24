//! A shop in the schema of the Berlin SPARQL Benchmark, and the queries of its explore use case.
//!
//! Bizer and Schultz, "The Berlin SPARQL Benchmark", IJSWIS 2009; "BSBM: Explore Use Case" and "BSBM: Dataset", version
//! of 2010-11-29. Vocabulary, entities and queries follow these; numbers and values follow their rules in outline only,
//! so times can be compared between engines here, but not with published ones. We differ: query 9, a DESCRIBE, and
//! query 12, a CONSTRUCT, are SELECTs of the same patterns.

use super::chance::{Chance, Triples, with_prologue};
use super::{Mix, Text};

const PREFIXES: &[(&str, &str)] = &[
    ("i", "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/"),
    ("bsbm", "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/"),
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("rev", "http://purl.org/stuff/rev#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("country", "http://downlode.org/rdf/iso-3166/countries#"),
];

/// About how many triples are made for each product, with its offers and reviews.
const FOR_EACH_PRODUCT: u64 = 345;
const OFFERS: u64 = 20;
const REVIEWS: u64 = 10;
const COUNTRIES: [&str; 10] = ["US", "GB", "JP", "CN", "DE", "FR", "ES", "RU", "KR", "AT"];
const LANGUAGES: [&str; 4] = ["en", "en", "de", "ja"];

/// Types form a tree: a root, this many types below it, and below each of those as many leaves as the next constant.
const MIDDLE: u64 = 8;
const LEAVES: u64 = 12;
const TYPES: u64 = 1 + MIDDLE + MIDDLE * LEAVES;
/// Features of each type.
const FEATURES: u64 = 30;

fn parent(kind: u64) -> Option<u64> {
    match kind {
        0 => None,
        1..=MIDDLE => Some(0),
        leaf => Some(1 + (leaf - 1 - MIDDLE) / LEAVES),
    }
}

fn date(chance: &mut Chance) -> String {
    let (month, day) = (chance.from_to(1, 12), chance.from_to(1, 28));
    format!("\"2008-{month:02}-{day:02}T00:00:00\"^^xsd:dateTime")
}

pub(crate) fn make(triples: u64, seed: u64) -> Mix {
    let chance = &mut Chance::new(seed);
    let out = &mut Triples::new(PREFIXES);
    let products = (triples / FOR_EACH_PRODUCT).max(10);
    let (producers, vendors) = (products / 50 + 1, products * OFFERS / 2000 + 1);
    let people = products * REVIEWS / 20 + 1;
    for kind in 0..TYPES {
        let name = format!("i:ProductType{kind}");
        out.add(&name, "rdf:type", "bsbm:ProductType");
        out.add(&name, "rdfs:label", format!("\"{}\"", chance.words(1, 3)));
        if let Some(parent) = parent(kind) {
            out.add(&name, "rdfs:subClassOf", format!("i:ProductType{parent}"));
        }
        for feature in kind * FEATURES..(kind + 1) * FEATURES {
            let name = format!("i:ProductFeature{feature}");
            out.add(&name, "rdf:type", "bsbm:ProductFeature");
            out.add(&name, "rdfs:label", format!("\"{}\"", chance.words(1, 3)));
        }
    }
    for (kind, count) in [("Producer", producers), ("Vendor", vendors)] {
        for one in 0..count {
            let name = format!("i:{kind}{one}");
            out.add(&name, "rdf:type", format!("bsbm:{kind}"));
            out.add(&name, "rdfs:label", format!("\"{}\"", chance.words(1, 3)));
            out.add(&name, "rdfs:comment", format!("\"{}\"", chance.words(20, 50)));
            out.add(&name, "foaf:homepage", format!("i:www.{kind}{one}.com/"));
            out.add(&name, "bsbm:country", format!("country:{}", COUNTRIES[chance.skewed(10) as usize]));
        }
    }
    for person in 0..people {
        let name = format!("i:Reviewer{person}");
        out.add(&name, "rdf:type", "foaf:Person");
        out.add(&name, "foaf:name", format!("\"{}\"", chance.words(2, 2)));
        out.add(&name, "bsbm:country", format!("country:{}", COUNTRIES[chance.skewed(10) as usize]));
    }
    for product in 0..products {
        let name = format!("i:Product{product}");
        out.add(&name, "rdf:type", "bsbm:Product");
        out.add(&name, "rdfs:label", format!("\"{}\"", chance.words(1, 3)));
        out.add(&name, "rdfs:comment", format!("\"{}\"", chance.words(50, 100)));
        let producer = format!("i:Producer{}", chance.below(producers));
        out.add(&name, "bsbm:producer", &producer);
        out.add(&name, "dc:publisher", &producer);
        let mut kind = Some(1 + MIDDLE + chance.below(MIDDLE * LEAVES));
        while let Some(one) = kind {
            out.add(&name, "rdf:type", format!("i:ProductType{one}"));
            for feature in (one * FEATURES..(one + 1) * FEATURES).filter(|_| chance.percent(25)) {
                out.add(&name, "bsbm:productFeature", format!("i:ProductFeature{feature}"));
            }
            kind = parent(one);
        }
        for property in 1..=5 {
            if property > 3 && chance.percent(50) {
                continue;
            }
            let text = chance.words(3, 15);
            out.add(&name, &format!("bsbm:productPropertyTextual{property}"), format!("\"{text}\""));
        }
        for property in 1..=5 {
            if property > 3 && chance.percent(50) {
                continue;
            }
            let number = chance.from_to(1, 2000);
            out.add(&name, &format!("bsbm:productPropertyNumeric{property}"), number.to_string());
        }
        for offer in 0..OFFERS {
            let offer = format!("i:Offer{}", product * OFFERS + offer);
            let vendor = format!("i:Vendor{}", chance.below(vendors));
            out.add(&offer, "rdf:type", "bsbm:Offer");
            out.add(&offer, "bsbm:product", &name);
            out.add(&offer, "bsbm:vendor", &vendor);
            out.add(&offer, "dc:publisher", &vendor);
            let price = (chance.from_to(5, 9999), chance.below(100));
            out.add(&offer, "bsbm:price", format!("\"{}.{:02}\"^^bsbm:USD", price.0, price.1));
            out.add(&offer, "bsbm:validFrom", date(chance));
            out.add(&offer, "bsbm:validTo", date(chance));
            out.add(&offer, "bsbm:deliveryDays", chance.from_to(1, 21).to_string());
            out.add(&offer, "bsbm:offerWebpage", format!("i:www.vendor.com/{}", &offer[2..]));
        }
        for review in 0..REVIEWS {
            let review = format!("i:Review{}", product * REVIEWS + review);
            let language = LANGUAGES[chance.below(4) as usize];
            out.add(&review, "rdf:type", "rev:Review");
            out.add(&review, "bsbm:reviewFor", &name);
            out.add(&review, "rev:reviewer", format!("i:Reviewer{}", chance.below(people)));
            out.add(&review, "dc:title", format!("\"{}\"@{language}", chance.words(4, 15)));
            out.add(&review, "rev:text", format!("\"{}\"@{language}", chance.words(50, 200)));
            out.add(&review, "bsbm:reviewDate", date(chance));
            for rating in 1..=4 {
                if chance.percent(70) {
                    out.add(&review, &format!("bsbm:rating{rating}"), chance.from_to(1, 10).to_string());
                }
            }
        }
    }
    let constant = move |chance: &mut Chance, what: &str| match what {
        "P" => format!("i:Product{}", chance.below(products)),
        "O" => format!("i:Offer{}", chance.below(products * OFFERS)),
        "R" => format!("i:Review{}", chance.below(products * REVIEWS)),
        "X" => chance.from_to(1, 500).to_string(),
        "W" => format!("w{}", chance.skewed(20_000)),
        "C" => format!("country:{}", COUNTRIES[chance.skewed(10) as usize]),
        _ => unreachable!("a query has no other constant"),
    };
    let queries = QUERIES.iter().map(|&(name, text)| (name, text)).collect();
    Mix {
        name: "BSBM explore",
        triples: std::mem::take(&mut out.text),
        count: out.count,
        queries,
        fill: Box::new(move |text: &str, chance: &mut Chance| {
            // A type, and features that products of this type have.
            let kind = 1 + MIDDLE + chance.below(MIDDLE * LEAVES);
            let mut filled = text.replace("%T", &format!("i:ProductType{kind}"));
            for name in ["%F1", "%F2", "%F3"] {
                let of = if chance.percent(50) { kind } else { parent(kind).unwrap_or(0) };
                let feature = of * FEATURES + chance.below(FEATURES);
                filled = filled.replace(name, &format!("i:ProductFeature{feature}"));
            }
            for what in ["P", "O", "R", "X", "W", "C"] {
                let marked = format!("%{what}");
                if filled.contains(&marked) {
                    filled = filled.replace(&marked, &constant(chance, what));
                }
            }
            with_prologue(PREFIXES, &filled)
        }) as Text,
    }
}

/// `%P` is a product, `%O` an offer, `%R` a review, `%T` a type, `%F1` to `%F3` features, `%X` a number, `%W` a word,
/// `%C` a country.
const QUERIES: [(&str, &str); 12] = [
    (
        "1",
        "SELECT DISTINCT ?product ?label WHERE { ?product rdfs:label ?label . ?product rdf:type %T . \
         ?product bsbm:productFeature %F1 . ?product bsbm:productFeature %F2 . \
         ?product bsbm:productPropertyNumeric1 ?value1 . FILTER (?value1 > %X) } ORDER BY ?label LIMIT 10",
    ),
    (
        "2",
        "SELECT ?label ?comment ?producer ?productFeature ?propertyTextual1 ?propertyTextual2 ?propertyTextual3 \
         ?propertyNumeric1 ?propertyNumeric2 ?propertyTextual4 ?propertyTextual5 ?propertyNumeric4 WHERE { \
         %P rdfs:label ?label . %P rdfs:comment ?comment . %P bsbm:producer ?p . ?p rdfs:label ?producer . \
         %P dc:publisher ?p . %P bsbm:productFeature ?f . ?f rdfs:label ?productFeature . \
         %P bsbm:productPropertyTextual1 ?propertyTextual1 . %P bsbm:productPropertyTextual2 ?propertyTextual2 . \
         %P bsbm:productPropertyTextual3 ?propertyTextual3 . %P bsbm:productPropertyNumeric1 ?propertyNumeric1 . \
         %P bsbm:productPropertyNumeric2 ?propertyNumeric2 . \
         OPTIONAL { %P bsbm:productPropertyTextual4 ?propertyTextual4 } \
         OPTIONAL { %P bsbm:productPropertyTextual5 ?propertyTextual5 } \
         OPTIONAL { %P bsbm:productPropertyNumeric4 ?propertyNumeric4 } }",
    ),
    (
        "3",
        "SELECT ?product ?label WHERE { ?product rdfs:label ?label . ?product rdf:type %T . \
         ?product bsbm:productFeature %F1 . ?product bsbm:productPropertyNumeric1 ?p1 . FILTER (?p1 > %X) \
         ?product bsbm:productPropertyNumeric3 ?p3 . FILTER (?p3 < 1500) \
         OPTIONAL { ?product bsbm:productFeature %F2 . ?product rdfs:label ?testVar } FILTER (!bound(?testVar)) } \
         ORDER BY ?label LIMIT 10",
    ),
    (
        "4",
        "SELECT DISTINCT ?product ?label ?propertyTextual WHERE { { ?product rdfs:label ?label . ?product rdf:type %T \
            . \
         ?product bsbm:productFeature %F1 . ?product bsbm:productFeature %F2 . \
         ?product bsbm:productPropertyTextual1 ?propertyTextual . ?product bsbm:productPropertyNumeric1 ?p1 . \
         FILTER (?p1 > %X) } UNION { ?product rdfs:label ?label . ?product rdf:type %T . \
         ?product bsbm:productFeature %F1 . ?product bsbm:productFeature %F3 . \
         ?product bsbm:productPropertyTextual1 ?propertyTextual . ?product bsbm:productPropertyNumeric2 ?p2 . \
         FILTER (?p2 > %X) } } ORDER BY ?label OFFSET 5 LIMIT 10",
    ),
    (
        "5",
        "SELECT DISTINCT ?product ?productLabel WHERE { ?product rdfs:label ?productLabel . FILTER (%P != ?product) \
         %P bsbm:productFeature ?prodFeature . ?product bsbm:productFeature ?prodFeature . \
         %P bsbm:productPropertyNumeric1 ?origProperty1 . ?product bsbm:productPropertyNumeric1 ?simProperty1 . \
         FILTER (?simProperty1 < (?origProperty1 + 120) && ?simProperty1 > (?origProperty1 - 120)) \
         %P bsbm:productPropertyNumeric2 ?origProperty2 . ?product bsbm:productPropertyNumeric2 ?simProperty2 . \
         FILTER (?simProperty2 < (?origProperty2 + 170) && ?simProperty2 > (?origProperty2 - 170)) } \
         ORDER BY ?productLabel LIMIT 5",
    ),
    (
        "6",
        "SELECT ?product ?label WHERE { ?product rdfs:label ?label . ?product rdf:type bsbm:Product . \
         FILTER regex(?label, \"%W\") }",
    ),
    (
        "7",
        "SELECT ?productLabel ?offer ?price ?vendor ?vendorTitle ?review ?revTitle ?reviewer ?revName ?rating1 \
            ?rating2 \
         WHERE { %P rdfs:label ?productLabel . OPTIONAL { ?offer bsbm:product %P . ?offer bsbm:price ?price . \
         ?offer bsbm:vendor ?vendor . ?vendor rdfs:label ?vendorTitle . ?vendor bsbm:country country:DE . \
         ?offer dc:publisher ?vendor . ?offer bsbm:validTo ?date . \
         FILTER (?date > \"2008-06-20T00:00:00\"^^xsd:dateTime) } OPTIONAL { ?review bsbm:reviewFor %P . \
         ?review rev:reviewer ?reviewer . ?reviewer foaf:name ?revName . ?review dc:title ?revTitle . \
         OPTIONAL { ?review bsbm:rating1 ?rating1 . } OPTIONAL { ?review bsbm:rating2 ?rating2 . } } }",
    ),
    (
        "8",
        "SELECT ?title ?text ?reviewDate ?reviewer ?reviewerName ?rating1 ?rating2 ?rating3 ?rating4 WHERE { \
         ?review bsbm:reviewFor %P . ?review dc:title ?title . ?review rev:text ?text . \
         FILTER langMatches(lang(?text), \"EN\") ?review bsbm:reviewDate ?reviewDate . \
         ?review rev:reviewer ?reviewer . ?reviewer foaf:name ?reviewerName . \
         OPTIONAL { ?review bsbm:rating1 ?rating1 . } OPTIONAL { ?review bsbm:rating2 ?rating2 . } \
         OPTIONAL { ?review bsbm:rating3 ?rating3 . } OPTIONAL { ?review bsbm:rating4 ?rating4 . } } \
         ORDER BY DESC(?reviewDate) LIMIT 20",
    ),
    ("9", "SELECT ?x ?property ?hasValue WHERE { %R rev:reviewer ?x . ?x ?property ?hasValue }"),
    (
        "10",
        "SELECT DISTINCT ?offer ?price WHERE { ?offer bsbm:product %P . ?offer bsbm:vendor ?vendor . \
         ?offer dc:publisher ?vendor . ?vendor bsbm:country country:US . ?offer bsbm:deliveryDays ?deliveryDays . \
         FILTER (?deliveryDays <= 3) ?offer bsbm:price ?price . ?offer bsbm:validTo ?date . \
         FILTER (?date > \"2008-06-20T00:00:00\"^^xsd:dateTime) } ORDER BY xsd:double(str(?price)) LIMIT 10",
    ),
    (
        "11",
        "SELECT ?property ?hasValue ?isValueOf WHERE { { %O ?property ?hasValue } UNION { ?isValueOf ?property %O } }",
    ),
    (
        "12",
        "SELECT ?productURI ?productlabel ?vendorname ?vendorhomepage ?offerURL ?price ?deliveryDays ?validTo WHERE { \
         %O bsbm:product ?productURI . ?productURI rdfs:label ?productlabel . %O bsbm:vendor ?vendorURI . \
         ?vendorURI rdfs:label ?vendorname . ?vendorURI foaf:homepage ?vendorhomepage . \
         %O bsbm:offerWebpage ?offerURL . %O bsbm:price ?price . %O bsbm:deliveryDays ?deliveryDays . \
         %O bsbm:validTo ?validTo }",
    ),
];
