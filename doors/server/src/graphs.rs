//! SPARQL 1.1 Graph Store HTTP Protocol: graphs are read, replaced, added to and deleted as documents.
//!
//! A graph is named by `?graph=IRI`, by `?default`, or by the request's own URL below `/store/`. Each request is one
//! query or one update, so it happens as a whole or not at all.

use crate::answer::{Failure, put, put_sequence};
use crate::body::{self, Body, Bound, Part};
use crate::metrics::Kind;
use crate::multipart;
use crate::negotiate::{coding_of, syntax_of};
use crate::query::{self, ClientQuery};
use crate::requests::RequestKind;
use crate::routes::{Incoming, MIN_SEQUENCE, Request, wait_for_sequence};
use crate::shared::Shared;
use crate::update::{self, Change};
use axum::http::{Method, Response, StatusCode};
use oxrdf::NamedNode;
use std::io::Cursor;
use std::sync::Arc;
use vicus_service::data::{Order, Syntax};
use vicus_service::{Document, SPARQL};

/// The graph of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Named {
    Default,
    Graph(NamedNode),
    /// The whole data.
    All,
}

/// Under this IRI, an update loads the body of its request.
const BODY: &str = "urn:vicus:the-body-of-the-request";

pub(crate) async fn answer(
    shared: &Arc<Shared>,
    request: &Request,
    incoming: Incoming,
) -> Result<Response<Body>, Failure> {
    let graph = named(request)?;
    match request.method {
        Method::GET | Method::HEAD => get(shared, request, graph).await,
        Method::PUT => put_graph(shared, request, incoming, graph).await,
        Method::POST => post(shared, request, incoming, graph).await,
        Method::DELETE => delete(shared, request, graph).await,
        _ => Err(Failure::method("GET, HEAD, PUT, POST, DELETE, OPTIONS")),
    }
}

fn named(request: &Request) -> Result<Named, Failure> {
    let of = |iri: String| {
        NamedNode::new(&iri)
            .map(Named::Graph)
            .map_err(|error| Failure::bad(format!("`{iri}` is no IRI of a graph: {error}")))
    };
    let one = request.parameters.one("graph").map_err(Failure::bad)?;
    match (one, request.parameters.has("default")) {
        (Some(_), true) => Err(Failure::bad("a request is about `graph` or about `default`")),
        (Some(graph), false) => {
            // §4.1: a relative IRI is resolved against the request's.
            let base = oxiri::Iri::parse(request.url()).map_err(|_| Failure::bad("the request has no usable URL"))?;
            match base.resolve(graph) {
                Ok(iri) => of(iri.into_inner()),
                Err(error) => Err(Failure::bad(format!("`{graph}` is no IRI of a graph: {error}"))),
            }
        }
        (None, true) => Ok(Named::Default),
        (None, false) if request.path.len() > "/store/".len() => of(request.url()),
        (None, false) => Ok(Named::All),
    }
}

impl Named {
    fn is_there(&self, shared: &Shared) -> bool {
        let snapshot = shared.data.now().snapshot;
        match self {
            Named::Default | Named::All => true,
            Named::Graph(graph) => {
                let count = |id| snapshot.index(Order::Gspo).count(&[id]);
                // The next reader reports why it can't be read.
                snapshot.read_by(|| snapshot.id(graph.as_ref().into()).is_some_and(|id| count(id) > 0)).unwrap_or(true)
            }
        }
    }

    /// The base of relative IRIs in a document of it.
    fn base(&self, request: &Request) -> String {
        if let Named::Graph(graph) = self { graph.as_str().to_owned() } else { request.url() }
    }

    fn missing(&self) -> Failure {
        let name = if let Named::Graph(graph) = self { graph.to_string() } else { String::new() };
        Failure::new(StatusCode::NOT_FOUND, "graph", format!("there is no graph {name}"))
    }
}

async fn get(shared: &Arc<Shared>, request: &Request, graph: Named) -> Result<Response<Body>, Failure> {
    if request.parameters.has(MIN_SEQUENCE) {
        // While it waits, it counts among its client's requests.
        let _begun = request.begin(shared, RequestKind { kind: "graph", language: "sequence" }, &"".into())?;
        wait_for_sequence(shared, &request.parameters, request.time()?).await?;
    }
    if !graph.is_there(shared) {
        return Err(graph.missing());
    }
    let text = match &graph {
        Named::Default => "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }".to_owned(),
        Named::Graph(graph) => format!("CONSTRUCT {{ ?s ?p ?o }} WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }}"),
        Named::All => return crate::dump::answer(shared, request).await,
    };
    let asked = ClientQuery {
        text: text.into(),
        language: SPARQL,
        base: None,
        graphs: None,
        wanted: request.wanted()?,
        coding: coding_of(&request.headers),
        time: None,
        first_rows: None,
        is_head: request.method == Method::HEAD,
        none_match: request.none_match(),
        own_default: true,
        is_traced: false,
        key: None,
    };
    let begun = request.begin(shared, RequestKind { kind: "get", language: "graph" }, &asked.text)?;
    let entry = Arc::clone(&begun.entry);
    let mut response = query::answer(shared, asked, begun).await;
    put_sequence(response.headers_mut(), entry.sequence.get().copied());
    Ok(response)
}

/// The body as a document for an update to load, and whether it may name its graphs itself. To replace all data, it
/// must be of a syntax with graphs.
async fn document(
    shared: &Shared,
    request: &Request,
    incoming: Incoming,
    base: Option<String>,
    replaces_all: bool,
) -> Result<(bool, Arc<Document>), Failure> {
    let clients = &shared.options.clients;
    let bound = Bound { bytes: clients.body_bytes, stretch: clients.body_time };
    let held = shared.bodies.begin(request.client);
    let check = |with_graphs: bool| match with_graphs || !replaces_all {
        true => Ok(()),
        false => Err(Failure::bad(
            "a document of one graph does not replace all data: name its graph by `?graph=IRI` or `?default`, or send \
                TriG, N-Quads or \
             JSON-LD",
        )),
    };
    let unsupported = |message| Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", message);
    if let Some(boundary) = multipart::boundary(&request.headers)? {
        let body = body::read(&request.headers, incoming, bound, held).await?;
        let (parts, held) = (multipart::parts(&body.bytes.into(), &boundary)?, Arc::new(body.held));
        let with_graphs = parts.iter().any(|(syntax, _)| has_graphs(*syntax));
        check(!parts.is_empty() && parts.iter().all(|(syntax, _)| has_graphs(*syntax)))?;
        let part = |bytes| Box::new(Part { inner: Cursor::new(bytes), _held: Arc::clone(&held) });
        let parts = parts.into_iter().map(|(syntax, bytes)| (syntax, part(bytes) as _)).collect();
        return Ok((with_graphs, Document::of_parts(BODY.to_owned(), base, parts)));
    }
    let syntax = match syntax_of(&request.headers) {
        // RFC 9110, §8.3: a body without a type may be anything; triples are most likely.
        None => Syntax::Turtle,
        Some(syntax) => syntax.map_err(unsupported)?,
    };
    check(has_graphs(syntax))?;
    let body = body::read(&request.headers, incoming, bound, held).await?;
    let part = Part { inner: Cursor::new(body.bytes), _held: Arc::new(body.held) };
    Ok((has_graphs(syntax), Document::new(BODY.to_owned(), syntax, base, part)))
}

fn has_graphs(syntax: Syntax) -> bool {
    matches!(syntax, Syntax::NQuads | Syntax::TriG | Syntax::JsonLd)
}

async fn put_graph(
    shared: &Arc<Shared>,
    request: &Request,
    incoming: Incoming,
    graph: Named,
) -> Result<Response<Body>, Failure> {
    request.may_write(shared)?;
    let is_new = !graph.is_there(shared);
    let replaces_all = graph == Named::All;
    let (_, document) = document(shared, request, incoming, Some(graph.base(request)), replaces_all).await?;
    let text = match &graph {
        Named::Default => format!("CLEAR DEFAULT ; LOAD <{BODY}>"),
        Named::Graph(graph) => format!("CLEAR SILENT GRAPH {graph} ; LOAD <{BODY}> INTO GRAPH {graph}"),
        Named::All => format!("CLEAR ALL ; LOAD <{BODY}>"),
    };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    change(shared, request, text, Some(document), status).await
}

async fn post(
    shared: &Arc<Shared>,
    request: &Request,
    incoming: Incoming,
    graph: Named,
) -> Result<Response<Body>, Failure> {
    request.may_write(shared)?;
    let is_new = !graph.is_there(shared);
    let (with_graphs, document) = document(shared, request, incoming, Some(graph.base(request)), false).await?;
    let (text, new) = match &graph {
        Named::Default => (format!("LOAD <{BODY}>"), None),
        Named::Graph(graph) => (format!("LOAD <{BODY}> INTO GRAPH {graph}"), None),
        Named::All if with_graphs => (format!("LOAD <{BODY}>"), None),
        // §5.5: a graph of the server's own naming.
        Named::All => {
            let name = format!("{}/store/{}", request.origin(), request.new_name(shared));
            (format!("LOAD <{BODY}> INTO GRAPH <{name}>"), Some(name))
        }
    };
    let status = if is_new || new.is_some() { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let mut response = change(shared, request, text, Some(document), status).await?;
    if let Some(name) = new.filter(|_| response.status() == StatusCode::CREATED) {
        put(response.headers_mut(), "location", name);
    }
    Ok(response)
}

async fn delete(shared: &Arc<Shared>, request: &Request, graph: Named) -> Result<Response<Body>, Failure> {
    request.may_write(shared)?;
    if !graph.is_there(shared) {
        return Err(graph.missing());
    }
    let text = match &graph {
        Named::Default => "CLEAR DEFAULT".to_owned(),
        Named::Graph(graph) => format!("DROP GRAPH {graph}"),
        Named::All => "CLEAR ALL".to_owned(),
    };
    change(shared, request, text, None, StatusCode::NO_CONTENT).await
}

async fn change(
    shared: &Arc<Shared>,
    request: &Request,
    text: String,
    document: Option<Arc<Document>>,
    success: StatusCode,
) -> Result<Response<Body>, Failure> {
    let change = Change {
        text: text.into(),
        base: None,
        graphs: None,
        document,
        time: request.time()?,
        prefers_json: request.prefers_json(),
        kind: Kind::Graph,
    };
    let begun = request.begin(shared, RequestKind { kind: "graph", language: "graph" }, &change.text)?;
    Ok(update::answer(shared, change, begun, success).await)
}
