//! The list of tests.

use oxrdf::vocab::{rdf, rdfs};
use oxrdf::{Graph, NamedNode, NamedNodeRef, NamedOrBlankNodeRef, TermRef};
use oxttl::TurtleParser;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    PositiveSyntax,
    NegativeSyntax,
    Evaluation,
    PositiveUpdateSyntax,
    NegativeUpdateSyntax,
    UpdateEvaluation,
}

/// The data before or after an update: files of the default graph, and of named graphs.
#[derive(Default)]
pub(crate) struct Data {
    pub(crate) default: Vec<PathBuf>,
    pub(crate) graphs: Vec<(String, PathBuf)>,
}

pub(crate) struct Test {
    /// Its folder and the end of its IRI: `sparql11/aggregates/agg01`.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) query: PathBuf,
    pub(crate) data: Vec<PathBuf>,
    /// Named graphs, each with the IRI of its file as name.
    pub(crate) graphs: Vec<PathBuf>,
    /// The data of endpoints.
    pub(crate) services: Vec<(String, PathBuf)>,
    pub(crate) result: Option<PathBuf>,
    /// For an update: the data before it, and after.
    pub(crate) before: Data,
    pub(crate) after: Data,
}

const BASE: &str = "https://w3c.github.io/rdf-tests/";

/// The name of a suite's file on the web.
pub(crate) fn iri(path: &Path) -> String {
    let text = path.to_str().expect("names are UTF-8");
    let (_, rest) = text.rsplit_once("/rdf-tests/").expect("a file of the suites");
    format!("{BASE}{rest}")
}

/// All tests listed as entries by the manifests in the folders of a suite.
pub(crate) fn tests(suite: &Path) -> Vec<Test> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(suite)
        .expect("a suite is a folder")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.join("manifest.ttl").is_file())
        .collect();
    folders.sort();
    folders.iter().flat_map(|folder| tests_of(folder)).collect()
}

fn tests_of(folder: &Path) -> Vec<Test> {
    let file = folder.join("manifest.ttl");
    let base = iri(&file);
    let text = std::fs::read(&file).expect("a readable manifest");
    let manifest: Graph = TurtleParser::new()
        .with_base_iri(&base)
        .expect("an IRI")
        .for_slice(&text)
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let root = folder.ancestors().nth(3).expect("suites lie in folders");
    let path = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => node.as_str().strip_prefix(BASE).map(|rest| root.join(rest)),
        _ => None,
    };
    let suite = folder.parent().and_then(Path::file_name).expect("a suite has a name").to_string_lossy().into_owned();
    let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
    let mut all = Vec::new();
    for test in entries(&manifest) {
        let Some(TermRef::NamedNode(kind)) = manifest.object_for_subject_predicate(test, rdf::TYPE) else {
            panic!("{test} is listed in {}, and has no type", file.display())
        };
        let kind = match kind.as_str().rsplit('#').next().unwrap_or_default() {
            "PositiveSyntaxTest" | "PositiveSyntaxTest11" => Kind::PositiveSyntax,
            "NegativeSyntaxTest" | "NegativeSyntaxTest11" => Kind::NegativeSyntax,
            "QueryEvaluationTest" | "CSVResultFormatTest" => Kind::Evaluation,
            "PositiveUpdateSyntaxTest11" | "PositiveUpdateSyntaxTest" => Kind::PositiveUpdateSyntax,
            "NegativeUpdateSyntaxTest11" | "NegativeUpdateSyntaxTest" => Kind::NegativeUpdateSyntax,
            "UpdateEvaluationTest" => Kind::UpdateEvaluation,
            _ => continue,
        };
        let Some(action) = manifest.object_for_subject_predicate(test, manifest_word("action").as_ref()) else {
            panic!("{test} has no action")
        };
        let of_action = |word: &str| -> Vec<PathBuf> {
            let node = as_node(action).expect("an action is a node");
            manifest.objects_for_subject_predicate(node, query_word(word).as_ref()).filter_map(path).collect()
        };
        let services = as_node(action).into_iter().flat_map(|node| {
            let services = manifest.objects_for_subject_predicate(node, query_word("serviceData").as_ref());
            services.filter_map(as_node).collect::<Vec<_>>()
        });
        let service = |node: NamedOrBlankNodeRef<'_>| {
            let TermRef::NamedNode(endpoint) =
                manifest.object_for_subject_predicate(node, query_word("endpoint").as_ref())?
            else {
                return None;
            };
            let data = manifest.object_for_subject_predicate(node, query_word("data").as_ref()).and_then(path)?;
            Some((endpoint.as_str().to_owned(), data))
        };
        let services = services.filter_map(service).collect();
        let request = || Some(as_node(action)?).and_then(|node| files_of(&manifest, node, "request", &path).pop());
        let query = of_action("query").into_iter().next().or_else(|| path(action)).or_else(request);
        let query = query.unwrap_or_default();
        let expected = manifest.object_for_subject_predicate(test, manifest_word("result").as_ref());
        let quads = |node: Option<TermRef<'_>>| {
            node.and_then(as_node).map_or_else(Data::default, |node| data_of(&manifest, node, &path))
        };
        let result = manifest.object_for_subject_predicate(test, manifest_word("result").as_ref()).and_then(path);
        let label = test.to_string();
        let label = label.trim_matches(['<', '>']).rsplit(['#', '/']).next().unwrap_or_default().to_owned();
        let (data, mut graphs) = (of_action("data"), of_action("graphData"));
        if data.is_empty() && graphs.is_empty() {
            // FROM in the query names its files.
            graphs = data_files(folder);
        }
        all.push(Test {
            name: format!("{suite}/{name}/{label}"),
            kind,
            query,
            data,
            graphs,
            services,
            result,
            before: quads(Some(action)),
            after: quads(expected),
        });
    }
    all
}

fn files_of(
    manifest: &Graph,
    node: NamedOrBlankNodeRef<'_>,
    word: &str,
    path: &impl Fn(TermRef<'_>) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    manifest.objects_for_subject_predicate(node, update_word(word).as_ref()).filter_map(path).collect()
}

fn data_of(manifest: &Graph, node: NamedOrBlankNodeRef<'_>, path: &impl Fn(TermRef<'_>) -> Option<PathBuf>) -> Data {
    let named = manifest.objects_for_subject_predicate(node, update_word("graphData").as_ref()).filter_map(as_node);
    let graph = |node: NamedOrBlankNodeRef<'_>| {
        let Some(TermRef::Literal(label)) = manifest.object_for_subject_predicate(node, rdfs::LABEL) else {
            panic!("a graph has a label")
        };
        (label.value().to_owned(), files_of(manifest, node, "graph", path).pop().expect("a graph has a file"))
    };
    Data { default: files_of(manifest, node, "data", path), graphs: named.map(graph).collect() }
}

/// The possible data files of a folder.
fn data_files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a suite is a folder");
    let files = files.map(|entry| entry.expect("a readable folder").path());
    let is_data = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("data") && name.ends_with(".ttl")
    };
    let mut files: Vec<PathBuf> = files.filter(is_data).collect();
    files.sort();
    files
}

/// The tests listed by a manifest, in its order. A described test without an entry is out of use.
fn entries(manifest: &Graph) -> Vec<NamedOrBlankNodeRef<'_>> {
    let mut tests = Vec::new();
    let lists = manifest.triples_for_predicate(manifest_word("entries").as_ref());
    for mut rest in lists.filter_map(|triple| as_node(triple.object)).collect::<Vec<_>>() {
        while let Some(first) = manifest.object_for_subject_predicate(rest, rdf::FIRST) {
            tests.extend(as_node(first));
            let Some(next) = manifest.object_for_subject_predicate(rest, rdf::REST).and_then(as_node) else { break };
            rest = next;
        }
    }
    tests
}

fn as_node(term: TermRef<'_>) -> Option<NamedOrBlankNodeRef<'_>> {
    match term {
        TermRef::BlankNode(node) => Some(NamedOrBlankNodeRef::BlankNode(node)),
        TermRef::NamedNode(node) => Some(NamedOrBlankNodeRef::NamedNode(node)),
        TermRef::Literal(_) | TermRef::Triple(_) => None,
    }
}

fn manifest_word(word: &str) -> NamedNode {
    let base = NamedNodeRef::new_unchecked("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#");
    NamedNode::new_unchecked(format!("{}{word}", base.as_str()))
}

fn query_word(word: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://www.w3.org/2001/sw/DataAccess/tests/test-query#{word}"))
}

fn update_word(word: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://www.w3.org/2009/sparql/tests/test-update#{word}"))
}
