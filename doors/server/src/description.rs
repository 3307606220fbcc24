//! SPARQL 1.1 Service Description: the endpoint's properties, as triples about it.

use crate::answer::{Failure, put, short};
use crate::body::Body;
use crate::negotiate::Offer;
use crate::routes::Request;
use crate::shared::Shared;
use axum::http::{Response, StatusCode};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_service::data::Snapshot;
use vicus_service::{Dataset, DefaultGraph, SessionOptions};

pub(crate) async fn answer(shared: &Arc<Shared>, request: &Request) -> Result<Response<Body>, Failure> {
    let Some(format) = request.wanted()?.accepted.graph(false) else {
        let message =
            "a service description can be text/turtle, application/n-triples, application/rdf+xml, application/ld+json";
        return Err(Failure::new(StatusCode::NOT_ACCEPTABLE, "format", message));
    };
    let snapshot = shared.data.now().snapshot;
    let text = snapshot.read_by(|| turtle(shared, request, &snapshot));
    let text = text.map_err(|damage| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "store", damage.to_string()))?;
    let job = {
        let shared = Arc::clone(shared);
        move || {
            let described = Snapshot::of_turtle(text.as_bytes(), None).map_err(|error| error.to_string())?;
            let session = shared.service.session(&Dataset::new(Arc::new(described)), SessionOptions::default());
            let query = "PREFIX sd: <http://www.w3.org/ns/sparql-service-description#> PREFIX void: \
                <http://rdfs.org/ns/void#> \
                         CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }";
            session.write(query, format, Vec::new()).map_err(|error| error.to_string())
        }
    };
    let described = shared.jobs.run(job).map_err(|_| Failure::busy("too many requests wait: ask again later"))?;
    let mistake = |message: String| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message);
    let (bytes, _) = described.await.map_err(|error| mistake(error.to_string()))?.map_err(mistake)?;
    let mut response = short(StatusCode::OK, Offer::Answer(format).media_type(), bytes);
    put(response.headers_mut(), "vary", "Accept");
    Ok(response)
}

fn turtle(shared: &Shared, request: &Request, snapshot: &Snapshot) -> String {
    let endpoint = format!("{}/sparql", request.origin());
    let mut text = String::from(
        "@prefix sd: <http://www.w3.org/ns/sparql-service-description#> . @prefix void: <http://rdfs.org/ns/void#> .\n",
    );
    let union = match shared.options.session.languages.sparql.default_graph {
        DefaultGraph::Union => ", sd:UnionDefaultGraph",
        DefaultGraph::Own => "",
    };
    let _ = write!(
        text,
        "[] a sd:Service ; sd:endpoint <{endpoint}> ; sd:feature sd:BasicFederatedQuery{union} ;\n\
         sd:supportedLanguage sd:SPARQL11Query, sd:SPARQL11Update ;\n"
    );
    for name in [
        "SPARQL_Results_JSON",
        "SPARQL_Results_XML",
        "SPARQL_Results_CSV",
        "SPARQL_Results_TSV",
        "Turtle",
        "N-Triples",
        "RDF_XML",
        "JSON-LD",
        "N-Quads",
        "TriG",
    ] {
        let _ = writeln!(text, "sd:resultFormat <http://www.w3.org/ns/formats/{name}> ;");
    }
    for name in ["Turtle", "N-Triples", "RDF_XML", "JSON-LD", "N-Quads", "TriG"] {
        let _ = writeln!(text, "sd:inputFormat <http://www.w3.org/ns/formats/{name}> ;");
    }
    let default = snapshot.statistics().triples;
    let _ =
        write!(text, "sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ; void:triples {default} ] ]");
    // Of very many graphs, the first.
    const MOST_GRAPHS: usize = 1000;
    for graph in snapshot.graphs().filter(|graph| !graph.is_unbound()).take(MOST_GRAPHS) {
        let name = snapshot.term(graph);
        if let oxrdf::Term::NamedNode(name) = name {
            let _ = write!(
                text,
                " ;\nsd:availableGraphs [ a sd:GraphCollection ; sd:namedGraph [ a sd:NamedGraph ; sd:name {name} ] ]"
            );
        }
    }
    text.push_str(" .\n");
    text
}
