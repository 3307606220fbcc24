//! Routes a request to its answer, by path and method.
//!
//! | path | what |
//! |---|---|
//! | `/sparql`, `/query` | queries (GET, POST), and updates by POST; without a query, the description of the service |
//! | `/update` | updates |
//! | `/sql`, and the name of each further language | its statements |
//! | `/store`, `/store/…` | graphs as documents |
//! | `/copies/…` | for copies of the store, and for who promotes them |
//! | `/metrics`, `/health` | for those who watch over servers |

use crate::access::Right;
use crate::answer::{Failure, put, put_sequence, short};
use crate::answers::{Key, Lasting};
use crate::body::{self, Body, Bound, HeldBytes, Whole};
use crate::date::http_date;
use crate::log::Line;
use crate::metrics::{self, Kind};
use crate::negotiate::{self, Accepted, FormatWish, coding_of};
use crate::parameters::Parameters;
use crate::query::{self, ClientQuery, time_limit};
use crate::requests::{NotBegun, RequestKind, RunningRequest, SECRET, Sender, agent};
use crate::shared::Shared;
use crate::update::{self, Change};
use crate::{copies, description, graphs};
use axum::Router;
use axum::extract::{Extension, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header};
use axum::routing::any;
use oxrdf::NamedNode;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use vicus_service::{LANGUAGES, QueryLanguage, ReadGraphs, SPARQL};

/// A request's body.
pub(crate) type Incoming = axum::body::Body;

/// A request without its body.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) parameters: Parameters,
    query: Option<String>,
    host: Option<String>,
    is_tls: bool,
    pub(crate) client: IpAddr,
    /// The key for keeping its answer.
    key: Option<Key>,
}

/// How a connection came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) from: SocketAddr,
    pub(crate) is_tls: bool,
}

/// All paths.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    let names = LANGUAGES.iter().filter(|language| !language.has_updates()).map(|language| language.name());
    names
        .fold(Router::new(), |router, name| router.route(&format!("/{name}"), any(handle)))
        .route("/sparql", any(handle))
        .route("/query", any(handle))
        .route("/update", any(handle))
        .route("/store", any(handle))
        .route("/store/{*rest}", any(handle))
        .fallback(handle)
        .with_state(shared)
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    Extension(arrived): Extension<Arrived>,
    request: axum::extract::Request,
) -> axum::response::Response {
    let (parts, body) = request.into_parts();
    let json = Accepted::of(&parts.headers).prefers_json();
    let is_head = parts.method == Method::HEAD;
    let is_framed = is_framed(&parts.headers);
    let origin = parts.headers.contains_key(header::ORIGIN);
    let mut response = match Request::of(parts, arrived).and_then(|request| request.checked_host(&shared)) {
        Ok(request) => match answer(&shared, &request, body).await {
            Ok(response) => response,
            Err(failure) => {
                shared.metrics.add(request.kind(), failure.status.as_u16(), Duration::ZERO);
                failure.response(json, None)
            }
        },
        Err(failure) => failure.response(json, None),
    };
    complete(&shared, &mut response, origin);
    if !is_framed {
        // Neither the end of its body nor the beginning of the next request is certain.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if is_head && let Some(length) = http_body::Body::size_hint(response.body()).exact().filter(|length| *length > 0) {
        put(response.headers_mut(), "content-length", length.to_string());
    }
    response.map(axum::body::Body::new)
}

/// Adds the headers of every answer. `origin`: whether a page of another origin asks.
fn complete(shared: &Shared, response: &mut Response<Body>, origin: bool) {
    shared.awake.answers();
    let headers = response.headers_mut();
    put_sequence(headers, shared.data.sequence());
    if let Some(date) = http_date(SystemTime::now()) {
        headers.insert(header::DATE, date);
    }
    headers.insert(header::SERVER, HeaderValue::from_static(concat!("vicus/", env!("CARGO_PKG_VERSION"))));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(cors) = shared.options.cors.as_ref().filter(|_| origin) {
        put(headers, "access-control-allow-origin", cors);
        put(
            headers,
            "access-control-expose-headers",
            "vicus-request-id, vicus-request-secret, vicus-rows-limited, vicus-sequence, etag, location, retry-after",
        );
    }
    if shared.is_draining.load(Ordering::Relaxed) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// The kept answer to a request, if there is one; nothing is run for it. Otherwise the request gets the key for keeping
/// its answer.
pub(crate) fn kept<B>(
    shared: &Shared,
    arrived: Arrived,
    request: &mut axum::http::Request<B>,
) -> Option<axum::response::Response> {
    if request.uri().query().is_some_and(|query| query.contains(MIN_SEQUENCE)) {
        return None;
    }
    let key = shared.answers.key(request, arrived.is_tls)?;
    let headers = request.headers();
    if shared.is_draining.load(Ordering::Relaxed) || shared.options.access.check(Right::Read, headers).is_err() {
        return None;
    }
    let began = Instant::now();
    let version = shared.data.now();
    let Some(kept) = shared.answers.kept.get(version.number, &key) else {
        request.extensions_mut().insert(key);
        return None;
    };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.zip(kept.tag.to_str().ok()).is_some_and(|(known, tag)| query::has_tag(known, tag));
    let mut response = kept.response(is_known);
    let id = shared.requests.new_id();
    put(response.headers_mut(), "vicus-request-id", &id);
    put_sequence(response.headers_mut(), version.sequence);
    let (status, bytes, rows) = if is_known { (304, 0, 0) } else { (200, kept.text.bytes(), kept.rows) };
    shared.metrics.rows.fetch_add(rows, Ordering::Relaxed);
    query::count_answer(shared, Kind::Query, status, began.elapsed(), bytes, |time| Line {
        id: &id,
        client: arrived.from.ip().to_string(),
        method: request.method().as_str(),
        path: request.uri().path(),
        agent: agent(headers),
        language: "sparql",
        kind: Kind::Query.name(),
        status,
        time,
        rows,
        bytes,
        error: None,
    });
    complete(shared, &mut response, headers.contains_key(header::ORIGIN));
    Some(response.map(axum::body::Body::new))
}

impl Request {
    fn of(parts: Parts, arrived: Arrived) -> Result<Request, Failure> {
        let query = parts.uri.query().map(str::to_owned);
        let parameters = Parameters::parse(query.as_deref().unwrap_or_default().as_bytes()).map_err(Failure::bad)?;
        let host = host(&parts)?;
        if !is_framed(&parts.headers) {
            return Err(Failure::bad("the request's Transfer-Encoding is expected to be `chunked`, once"));
        }
        Ok(Request {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            headers: parts.headers,
            parameters,
            query,
            host,
            is_tls: arrived.is_tls,
            client: arrived.from.ip(),
            key: parts.extensions.get().copied(),
        })
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.host.as_deref().unwrap_or("localhost"))
    }

    /// The requested URL.
    pub(crate) fn url(&self) -> String {
        let query = self.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        format!("{}{}{query}", self.origin(), self.path)
    }

    /// The base of relative IRIs in a text: the address it was sent to (RFC 3986, §5.1.3).
    pub(crate) fn base(&self) -> Option<String> {
        let url = format!("{}{}", self.origin(), self.path);
        oxiri::Iri::parse(url).ok().map(oxiri::Iri::into_inner)
    }

    pub(crate) fn wanted(&self) -> Result<FormatWish, Failure> {
        let one = |name| self.parameters.one(name).map_err(Failure::bad);
        Ok(negotiate::format_of(one("format")?.or(one("output")?), &self.headers))
    }

    pub(crate) fn prefers_json(&self) -> bool {
        Accepted::of(&self.headers).prefers_json()
    }

    pub(crate) fn none_match(&self) -> Option<String> {
        let is_read = matches!(self.method, Method::GET | Method::HEAD);
        Some(self.headers.get(header::IF_NONE_MATCH).filter(|_| is_read)?.to_str().ok()?.to_owned())
    }

    /// How long the client gives it.
    pub(crate) fn time(&self) -> Result<Option<Duration>, Failure> {
        let Some(text) = self.parameters.one("timeout").map_err(Failure::bad)? else { return Ok(None) };
        let wrong = || Failure::bad(format!("`{text}` is no time: expected seconds, as in timeout=1.5"));
        time_limit(text).map(Some).ok_or_else(wrong)
    }

    /// The request, if it is for this server and not for another name that leads here.
    fn checked_host(self, shared: &Shared) -> Result<Request, Failure> {
        shared.origins.check_host(self.host.as_deref()).map(|()| self)
    }

    /// Whether it may change data, or stop other requests.
    pub(crate) fn may_write(&self, shared: &Shared) -> Result<(), Failure> {
        shared.options.access.check(Right::Write, &self.headers)?;
        self.is_own(shared)
    }

    /// No page of another origin has sent it.
    pub(crate) fn is_own(&self, shared: &Shared) -> Result<(), Failure> {
        let knows = || shared.options.access.knows_write(&self.headers);
        shared.origins.check_page(&self.headers, &self.origin(), knows)
    }

    pub(crate) fn may_read(&self, shared: &Shared) -> Result<(), Failure> {
        Ok(shared.options.access.check(Right::Read, &self.headers)?)
    }

    /// A name unused by all other graphs, except by an extreme coincidence.
    pub(crate) fn new_name(&self, shared: &Shared) -> String {
        use std::hash::{BuildHasher, RandomState};
        let (state, version) = (RandomState::new(), shared.data.now().number);
        format!("{:016x}{:016x}", state.hash_one(version), state.hash_one("graph"))
    }

    /// Begins the request under its name.
    pub(crate) fn begin(&self, shared: &Shared, what: RequestKind, text: &Arc<str>) -> Result<RunningRequest, Failure> {
        if shared.is_draining.load(Ordering::Relaxed) {
            return Err(Failure::busy("the server is about to end"));
        }
        let name = self.headers.get("vicus-request-id").map(|name| name.to_str().unwrap_or(""));
        let from = Sender { client: self.client, headers: &self.headers, method: &self.method, path: &self.path };
        shared.requests.begin(name, what, text, from).map_err(|error| match error {
            NotBegun::NoName(message) => Failure::bad(message),
            NotBegun::Name(message) => Failure::new(StatusCode::CONFLICT, "name", message),
            NotBegun::TooMany(most) => {
                let message = format!("{most} requests of this address run, which is the limit: ask again later");
                let retry_after = Some(Duration::from_secs(1));
                Failure { retry_after, ..Failure::new(StatusCode::TOO_MANY_REQUESTS, "busy", message) }
            }
        })
    }

    fn kind(&self) -> Kind {
        match self.path.as_str() {
            "/sparql" | "/query" => Kind::Query,
            path if statements_at(path).is_some() => Kind::Query,
            "/update" => Kind::Update,
            path if path.starts_with("/store") => Kind::Graph,
            _ => Kind::Page,
        }
    }
}

/// The language of the statements sent to a path. SPARQL's queries and updates have a protocol of their own.
fn statements_at(path: &str) -> Option<&'static dyn QueryLanguage> {
    let name = path.strip_prefix('/')?;
    LANGUAGES.into_iter().find(|language| language.name() == name && !language.has_updates())
}

/// Whether a chunked body has no other coding (RFC 9112, §6.1): other readers might find another end for the same
/// bytes.
fn is_framed(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    codings.next().is_none_or(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
        && codings.next().is_none()
}

/// The host of a request (RFC 9112, §3.2): HTTP/1.1 has it, once; other versions may have it.
fn host(parts: &Parts) -> Result<Option<String>, Failure> {
    let mut fields = parts.headers.get_all(header::HOST).iter();
    let (first, is_one) = (fields.next(), fields.next().is_none());
    if !is_one || (first.is_none() && parts.version == Version::HTTP_11) {
        return Err(Failure::bad("a request has one Host"));
    }
    if let Some(host) = parts.uri.authority() {
        return Ok(Some(host.to_string()));
    }
    let Some(first) = first else { return Ok(None) };
    let host = first.to_str().ok().filter(|host| host.is_empty() || host.parse::<Authority>().is_ok());
    host.map(|host| Some(host.to_owned()).filter(|host| !host.is_empty()))
        .ok_or_else(|| Failure::bad("the request's Host is none"))
}

async fn answer(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    if request.method == Method::OPTIONS {
        return Ok(options(shared, request));
    }
    if let Some(language) = statements_at(&request.path) {
        request.may_read(shared)?;
        if language.may_write(&shared.options.session.languages) {
            if request.method != Method::POST {
                return Err(Failure::method("POST, OPTIONS"));
            }
            request.may_write(shared)?;
        }
        let Text { query, parameters, _held, .. } = statement(shared, request, body, language).await?;
        let text =
            query.ok_or_else(|| Failure::bad("there is no statement: send it as the body of a POST, or as `query`"))?;
        return ask(shared, request, text, &parameters, language).await;
    }
    match request.path.as_str() {
        "/sparql" | "/query" => sparql(shared, request, body).await,
        "/update" => {
            if request.method != Method::POST {
                return Err(Failure::method("POST, OPTIONS"));
            }
            request.may_write(shared)?;
            let parsed = parsed(shared, request, body).await?;
            match parsed {
                Text { update: Some(text), parameters, _held, .. } => change(shared, request, &text, &parameters).await,
                _ => Err(Failure::bad(
                    "there is no update: send it as application/sparql-update, or as `update` in a form",
                )),
            }
        }
        path if path == "/store" || path.starts_with("/store/") => {
            request.may_read(shared)?;
            graphs::answer(shared, request, body).await
        }
        "/health" => {
            let ready = !shared.is_draining.load(Ordering::Relaxed);
            let (status, text) =
                if ready { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "ending\n") };
            Ok(short(status, "text/plain; charset=utf-8", text.as_bytes().to_vec()))
        }
        "/metrics" => {
            request.may_read(shared)?;
            let text = metrics::text(shared);
            Ok(short(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes()))
        }
        "/copies/standing" | "/copies/base" | "/copies/records" | "/copies/promise" | "/copies/promote" => {
            Ok(copies::answer(shared, request, body).await)
        }
        path if path.starts_with("/copies/base/") => Ok(copies::answer(shared, request, body).await),
        _ => crate::api::answer(shared, request, body).await,
    }
}

/// Answers a browser's question before a request to another origin.
fn options(shared: &Shared, request: &Request) -> Response<Body> {
    let allow = match request.path.as_str() {
        "/update" => "POST, OPTIONS",
        path if path.starts_with("/store") => "GET, HEAD, PUT, POST, DELETE, OPTIONS",
        _ => "GET, HEAD, POST, OPTIONS",
    };
    let mut response = short(StatusCode::NO_CONTENT, "", Vec::new());
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    if shared.options.cors.is_some() && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        put(headers, "access-control-allow-methods", allow);
        put(
            headers,
            "access-control-allow-headers",
            "accept, authorization, content-type, vicus-request-id, vicus-request-secret, vicus-trace, if-none-match",
        );
        put(headers, "access-control-max-age", "86400");
    }
    response
}

/// The text and parameters of a request, from its body or its URL.
struct Text {
    query: Option<String>,
    update: Option<String>,
    parameters: Parameters,
    /// The body's memory, until its text is no longer needed.
    _held: Option<HeldBytes>,
}

/// The type of a body without its parameters, in lower case. A text is UTF-8.
fn media_type_of(request: &Request) -> Result<String, Failure> {
    let media_type =
        request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (media_type, parts) = media_type.split_once(';').unwrap_or((media_type, ""));
    if let Some((_, charset)) = parts
        .split(';')
        .filter_map(|part| part.trim().split_once('='))
        .find(|(name, _)| name.eq_ignore_ascii_case("charset"))
        && !charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
    {
        return Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "charset",
            format!("a text is UTF-8, not `{charset}`"),
        ));
    }
    Ok(media_type.trim().to_ascii_lowercase())
}

/// A body's text, and its memory.
fn text_of(body: Whole) -> Result<(String, HeldBytes), Failure> {
    let text = String::from_utf8(body.bytes).map_err(|_| Failure::bad("the text is no UTF-8"))?;
    Ok((text, body.held))
}

const FORM: &str = "application/x-www-form-urlencoded";

/// The query or update of a request, by its method and its body's type (SPARQL 1.1 Protocol, §2.1, §2.2).
async fn parsed(shared: &Shared, request: &Request, body: Incoming) -> Result<Text, Failure> {
    let parameters = request.parameters.clone();
    if request.method != Method::POST {
        let query = parameters.one("query").map_err(Failure::bad)?.map(str::to_owned);
        return Ok(Text { query, update: None, parameters, _held: None });
    }
    let media_type = media_type_of(request)?;
    // Checked before anything of the body is read. A form may hold either; its contents are checked when they are
    // there.
    match media_type.as_str() {
        "application/sparql-query" => request.may_read(shared)?,
        "application/sparql-update" => request.may_write(shared)?,
        FORM => request.may_read(shared).or_else(|denied| request.may_write(shared).map_err(|_| denied))?,
        other => {
            let message = format!(
                "a body of `{other}` is no query and no update: expected application/sparql-query, \
                    application/sparql-update or \
                 {FORM}"
            );
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", message));
        }
    }
    if media_type != FORM && (parameters.has("query") || parameters.has("update")) {
        return Err(Failure::bad("the text is the body, and is not a parameter as well"));
    }
    if media_type == FORM {
        return form(shared, request, body, parameters).await;
    }
    let body = body::read(&request.headers, body, text_bound(shared), shared.bodies.begin(request.client)).await?;
    let (text, held) = text_of(body)?;
    let (query, update) =
        if media_type == "application/sparql-query" { (Some(text), None) } else { (None, Some(text)) };
    Ok(Text { query, update, parameters, _held: Some(held) })
}

fn text_bound(shared: &Shared) -> Bound {
    Bound { bytes: shared.options.session.text.bytes as u64, stretch: shared.options.clients.body_time }
}

/// The contents of the form in a body.
async fn form(shared: &Shared, request: &Request, body: Incoming, mut parameters: Parameters) -> Result<Text, Failure> {
    let Bound { bytes, stretch } = text_bound(shared);
    // In a form, a byte may be three.
    let bound = Bound { bytes: bytes.saturating_mul(3).saturating_add(1 << 20), stretch };
    let Whole { bytes, held } = body::read(&request.headers, body, bound, shared.bodies.begin(request.client)).await?;
    parameters.add(Parameters::parse(&bytes).map_err(Failure::bad)?);
    let query = parameters.one("query").map_err(Failure::bad)?.map(str::to_owned);
    let update = parameters.one("update").map_err(Failure::bad)?.map(str::to_owned);
    Ok(Text { query, update, parameters, _held: Some(held) })
}

/// The statement of a request: its body, or the parameter `query` of its URL or its form.
async fn statement(
    shared: &Shared,
    request: &Request,
    body: Incoming,
    language: &'static dyn QueryLanguage,
) -> Result<Text, Failure> {
    let parameters = request.parameters.clone();
    if request.method == Method::POST {
        let names = language.media_types();
        return match media_type_of(request)?.as_str() {
            FORM => form(shared, request, body, parameters).await,
            name if name.is_empty() || name == "text/plain" || names.contains(&name) => {
                if parameters.has("query") {
                    return Err(Failure::bad("the text is the body, and is not a parameter as well"));
                }
                let held = shared.bodies.begin(request.client);
                let body = body::read(&request.headers, body, text_bound(shared), held).await?;
                let (text, held) = text_of(body)?;
                Ok(Text { query: Some(text), update: None, parameters, _held: Some(held) })
            }
            other => {
                let message =
                    format!("a body of `{other}` is no statement: expected {}, text/plain or {FORM}", names[0]);
                Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "format", message))
            }
        };
    }
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(Failure::method("GET, HEAD, POST, OPTIONS"));
    }
    let query = parameters.one("query").map_err(Failure::bad)?.map(str::to_owned);
    Ok(Text { query, update: None, parameters, _held: None })
}

async fn sparql(shared: &Arc<Shared>, request: &Request, body: Incoming) -> Result<Response<Body>, Failure> {
    if !matches!(request.method, Method::GET | Method::HEAD | Method::POST) {
        return Err(Failure::method("GET, HEAD, POST, OPTIONS"));
    }
    match parsed(shared, request, body).await? {
        Text { query: Some(_), update: Some(_), .. } => {
            Err(Failure::bad("a request has a query or an update, not both"))
        }
        Text { query: Some(text), parameters, _held, .. } => {
            request.may_read(shared)?;
            ask(shared, request, text, &parameters, SPARQL).await
        }
        Text { update: Some(text), parameters, _held, .. } => change(shared, request, &text, &parameters).await,
        Text { parameters, .. } if request.method != Method::POST && !parameters.has("update") => {
            request.may_read(shared)?;
            description::answer(shared, request).await
        }
        Text { parameters, .. } if parameters.has("update") => Err(Failure::bad("an update is sent by POST")),
        Text { .. } => {
            Err(Failure::bad("there is no query: send it as application/sparql-query, or as `query` in a form"))
        }
    }
}

async fn ask(
    shared: &Arc<Shared>,
    request: &Request,
    text: String,
    parameters: &Parameters,
    language: &'static dyn QueryLanguage,
) -> Result<Response<Body>, Failure> {
    let one = |name| parameters.one(name).map_err(Failure::bad);
    let first_rows = match one("limit")? {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| Failure::bad(format!("`{text}` is no number of rows, as in limit=1000")))?)
        }
    };
    let time = match one("timeout")? {
        None => None,
        Some(text) => Some(
            time_limit(text)
                .ok_or_else(|| Failure::bad(format!("`{text}` is no time: expected seconds, as in timeout=1.5")))?,
        ),
    };
    let asked = ClientQuery {
        text: text.into(),
        language,
        base: request.base(),
        graphs: read_graphs(parameters, "default-graph-uri", "named-graph-uri")?,
        wanted: negotiate::format_of(one("format")?.or(one("output")?), &request.headers),
        coding: coding_of(&request.headers),
        time,
        first_rows,
        is_head: request.method == Method::HEAD,
        none_match: request.none_match(),
        own_default: false,
        is_traced: request.headers.contains_key("vicus-trace") && request.headers.contains_key("vicus-request-id"),
        key: request.key.filter(|_| !language.reads_files()),
    };
    // While it waits, it counts among its client's requests.
    let begun = request.begin(shared, RequestKind { kind: "query", language: language.name() }, &asked.text)?;
    wait_for_sequence(shared, parameters, time).await?;
    let (id, secret) = (Arc::clone(&begun.entry.id), begun.entry.secret_to_tell());
    let entry = Arc::clone(&begun.entry);
    let mut response = query::answer(shared, asked, begun).await;
    put_sequence(response.headers_mut(), entry.sequence.get().copied());
    let lasting = response.extensions_mut().remove::<Lasting>();
    if let (Some(key), Some(lasting), Body::Whole(Some(bytes))) = (request.key, lasting, response.body()) {
        let mut text = shared.answers.text();
        if text.push(bytes) {
            shared.answers.put(key, lasting, text);
        }
    }
    put(response.headers_mut(), "vicus-request-id", &*id);
    if let Some(secret) = secret {
        put(response.headers_mut(), SECRET, secret);
    }
    if let Some(rows) = first_rows {
        put(response.headers_mut(), "vicus-rows-limited", rows.to_string());
    }
    Ok(response)
}

async fn change(
    shared: &Arc<Shared>,
    request: &Request,
    text: &str,
    parameters: &Parameters,
) -> Result<Response<Body>, Failure> {
    request.may_write(shared)?;
    let change = Change {
        text: text.into(),
        base: request.base(),
        graphs: read_graphs(parameters, "using-graph-uri", "using-named-graph-uri")?,
        document: None,
        time: request.time()?,
        prefers_json: request.prefers_json(),
        kind: Kind::Update,
    };
    let begun = request.begin(shared, RequestKind { kind: "update", language: "sparql" }, &change.text)?;
    let id = Arc::clone(&begun.entry.id);
    let status = if request.prefers_json() { StatusCode::OK } else { StatusCode::NO_CONTENT };
    let mut response = update::answer(shared, change, begun, status).await;
    put(response.headers_mut(), "vicus-request-id", &*id);
    Ok(response)
}

/// Waits for the record of `min-sequence`, if the request names one.
pub(crate) async fn wait_for_sequence(
    shared: &Shared,
    parameters: &Parameters,
    time: Option<Duration>,
) -> Result<(), Failure> {
    let Some(text) = parameters.one(MIN_SEQUENCE).map_err(Failure::bad)? else { return Ok(()) };
    let wrong = || Failure::bad(format!("`{text}` is no number of a record, as in min-sequence=17"));
    let most = [time, shared.options.session.limits.time].into_iter().flatten().min();
    shared.waits_for_sequence(text.parse().map_err(|_| wrong())?, most).await
}

pub(crate) const MIN_SEQUENCE: &str = "min-sequence";

/// The graphs named by the parameters.
fn read_graphs(parameters: &Parameters, default: &str, named: &str) -> Result<Option<ReadGraphs>, Failure> {
    let all = |name: &str| -> Result<Vec<NamedNode>, Failure> {
        let of = |iri: &str| {
            NamedNode::new(iri).map_err(|error| Failure::bad(format!("`{iri}` is no IRI of a graph: {error}")))
        };
        parameters.all(name).map(of).collect()
    };
    if !parameters.has(default) && !parameters.has(named) {
        return Ok(None);
    }
    Ok(Some(ReadGraphs { default: all(default)?, named: all(named)? }))
}
