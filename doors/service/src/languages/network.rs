//! Networks of boxes as text: an answer has the rows of the text's `collect`.

use super::{CheckedText, LanguageOptions, QueryLanguage, Question, TextReading};
use crate::error::Error;
use crate::session::{Call, Prepared};
use std::fmt;
use std::sync::Arc;
use vicus_language::{Answer, Compiler as _};
use vicus_network::{Kinds, NetworkText, Networks};

/// The options of networks.
#[derive(Clone)]
pub struct NetworkOptions {
    /// The kinds of boxes that texts can name.
    pub kinds: Arc<Kinds>,
    /// Whether some of them write files.
    pub has_writers: bool,
}

impl Default for NetworkOptions {
    /// The kinds of the library, which know no files.
    fn default() -> NetworkOptions {
        NetworkOptions { kinds: Arc::new(Kinds::library()), has_writers: false }
    }
}

impl fmt::Debug for NetworkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkOptions").field("has_writers", &self.has_writers).finish_non_exhaustive()
    }
}

/// Texts of networks, as a door names them.
#[derive(Debug)]
pub(super) struct NetworkTexts;

impl QueryLanguage for NetworkTexts {
    fn name(&self) -> &'static str {
        "network"
    }

    fn number(&self) -> u32 {
        2
    }

    fn about(&self) -> &'static str {
        "networks of boxes; the rows of `collect` are the answer"
    }

    fn media_types(&self) -> &'static [&'static str] {
        &["text/vnd.vicus.network"]
    }

    fn needs_data(&self) -> bool {
        false
    }

    fn reads_files(&self) -> bool {
        true
    }

    fn may_write(&self, options: &LanguageOptions) -> bool {
        options.network.has_writers
    }

    fn read(&self, text: &str, reading: &TextReading<'_>) -> Result<CheckedText, Error> {
        let options = reading.options();
        let networks = Networks { kinds: &options.languages.network.kinds, nodes: 1 };
        let parse = || networks.parse(text, &options.text);
        reading.read(&NetworkTexts, text, networks.parsing_bytes(text), parse)
    }

    fn question(&self, _: &CheckedText) -> Question {
        Question { word: "network", answer: Answer::Rows { columns: Vec::new() } }
    }

    fn plan(&self, call: &Call, checked: &CheckedText) -> Result<Arc<Prepared>, Error> {
        let kinds = &call.session.options().languages.network.kinds;
        let nodes = call.session.service.runtime().topology().nodes.len();
        call.plan_in(&Networks { kinds, nodes }, checked.parsed::<NetworkText>(), checked)
    }
}
