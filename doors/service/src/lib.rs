//! The common layer of all doors with queries: datasets, sessions, prepared plans, answers into any sink, limits and
//! cancellation, and the memory of the process. It has no terminal, and no sockets except for [`Web`], which asks the
//! endpoints of SERVICE, and [`StoreServer`], by which a store follows another server's.
//!
//! A [`Service`] has threads and a [`MemoryBudget`]; it loads a [`Dataset`], and a [`Session`] asks it. A [`Call`] is
//! one question: its time begins with it, it takes its share of the memory, and its [`Cancel`] can cancel it at any
//! moment. It prepares a text ([`Prepared`]: parsed and planned, to be run any number of times), and starts it
//! ([`RunningQuery`]) into a [`Sink`]: text in one of the W3C's formats into any `Write` ([`TextSink`]), batches into a
//! function ([`Each`]), or a number ([`Count`]). A failed call has an [`Error`], and a door maps its [`ErrorKind`] to
//! an exit status or an HTTP status.
//!
//! Nothing here polls: a waiting caller sleeps until the answer is there, a thread of the service sleeps until the time
//! of the next call is up, whether that is waited for or not, and a cancelled call is told. (Two exceptions look from
//! time to time: a box that waits for a server on the web, whether its run goes on, and an update that waits for
//! others, whether it still does.) Reading a text is bounded by its length and its depth, planning by its steps; both
//! run on the calling thread, so no thread is left behind when their time is up.

mod archive;
mod begin;
mod budget;
mod cancel;
mod copies;
mod document;
mod error;
mod kinds;
mod languages;
mod load;
mod merger;
mod output;
mod peers;
mod quads;
mod service;
mod session;
mod shared;
mod sink;
mod store;
mod temporary;
mod timer;
mod tls;
mod update;
mod web;

/// Data and where it comes from: snapshots, sources and their syntaxes, stores.
pub mod data {
    pub use vicus_rdf::load::{
        LONGEST_IRI, LoadError, LoadOptions, LoadSource, LoadSpill, Malformed, OnError, Phase, Syntax,
    };
    pub use vicus_rdf::{Id, Order, Snapshot, TermView};
    pub use vicus_store::{Batch, CommitError, Store, StoreError, StorePlace};
}

pub use archive::{
    Archive, ArchiveBehind, ArchiveError, Archived, Archiving, ArchivingOptions, Objects, Pruned, ReadAt, Restored,
    RestoredAs, Told,
};
pub use budget::{Admission, Busy, EndedCalls, MemoryBudget};
pub use cancel::Cancel;
pub use copies::{Behind, COPIES_HEADER, CopyError, FollowOptions, Following, StoreServer, epoch_of_words, next_epoch};
pub use document::{
    Document, DocumentFailed, FileNotPermitted, file_iri, syntax_by_ending, syntax_by_media_type, unpacked,
};
pub use error::{Error, ErrorKind, SinkFailed, Stage};
pub use kinds::{add_kinds, paths_below};
pub use languages::{
    CheckedText, LANGUAGES, LanguageOptions, MOST_DEPTH, NetworkOptions, QueryLanguage, Question, SPARQL,
    SparqlOptions, SqlOptions, Surroundings, TextOption, TextReading, check, is_prefix, language, option_of,
};
pub use load::{Dataset, LoadedDataset, Loading};
pub use merger::{MergerWork, StoreMerger};
pub use output::{Output, is_stdout, is_to_be_replaced};
pub use peers::{
    CrossingCounts, HostedPart, NoPart, PeerData, PeerFailure, PeerHost, PeerHostOptions, PeerRun, PeerTeam, Peers,
    Sends, StoreFolder,
};
pub use quads::{GraphChoice, Matching, change_quads};
pub use service::Service;
pub use session::{
    Call, CallLimits, CallOutcome, Prepared, ReadGraphs, RunningQuery, Session, SessionOptions, Watching, millis,
};
pub use shared::{SharedDataset, SharedDraft};
pub use sink::{
    ArrowForm, ArrowStream, BrokenOff, CellReader, Count, DumpError, Each, EachTaker, Format, Next, Pace, RowStream,
    Screen, Sink, SolutionBatch, Solutions, SomeRows, StreamReader, StreamWatch, StreamWriter, Taker, TermForm,
    TextSink, TextTaker, TooManyRows, Unwritable, WrongFormat, WrongValue, dump, text_stream,
};
pub use store::{
    NewStore, back_up_store, check_store, copy_store, create_store, graph_name, has_room_for_store, open_store,
    read_store, read_store_up_to, repair_store,
};
pub use temporary::TemporaryFolder;
pub use tls::{TlsCertificate, TlsError, TlsRoots};
pub use update::{CheckedUpdate, Draft, StoreUpdate, StoreUpdateError, Updated, Updating, check_update};
pub use vicus_files::File;
pub use vicus_language::{
    Answer, Completion, Done, Machines, PlanNode, PlanOptions, Remark, RemarkKind, RunCounts, StepBox, Suggestion,
    SuggestionKind, TextError, TextErrorKind, TextLimits, ValueType,
};
pub use vicus_sparql::{DefaultGraph, KNOWN_PREFIXES, Moment, ServiceFailed};
pub use vicus_sql::{SqlType, Table as SqlTable, Tables};
pub use vicus_store::{
    ArchiveSource, Ask, CommitWatch, Content as CopyContent, CopyStanding, Epoch, NotArchived, Offer,
    PROTOCOL as COPIES_VERSION, Repaired, Store, StoreError, TornTail, Unread, Until,
};
pub use web::{Permit, Web, WebError, WebOptions};
