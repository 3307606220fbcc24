//! The files that texts name.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// How the files of kinds that read or write some are found, by the names in a text.
///
/// ```
/// use vicus_network::{Kinds, Paths};
///
/// let kinds = Kinds::library().with_paths(Paths::by(|name| match name.contains('/') {
///     true => Err(format!("{name}: a name without a folder is expected")),
///     false => Ok(std::path::Path::new("data").join(name)),
/// }));
/// # drop(kinds);
/// ```
#[derive(Clone)]
pub struct Paths {
    find: Arc<Find>,
    /// Where files are written, if not where they are found.
    place: Option<Arc<Place>>,
    /// Takes what is to be done when a network has done well.
    at_end: Option<LaterWork>,
}

type Find = dyn Fn(&str) -> Result<PathBuf, String> + Send + Sync;

/// Work for the end of a network that has done well. Its error is the network's.
pub type EndWork = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// Takes work until then.
pub type LaterWork = Arc<dyn Fn(EndWork) + Send + Sync>;

type Place = dyn Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync;

impl Paths {
    /// Files by a function. Its error says why a name has no file.
    pub fn by(find: impl Fn(&str) -> Result<PathBuf, String> + Send + Sync + 'static) -> Paths {
        Paths { find: Arc::new(find), place: None, at_end: None }
    }

    /// Has files written where a function says.
    pub(crate) fn writing(self, place: impl Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync + 'static) -> Paths {
        Paths { place: Some(Arc::new(place)), ..self }
    }

    /// Has work left to a function.
    pub(crate) fn ending(self, later: LaterWork) -> Paths {
        Paths { at_end: Some(later), ..self }
    }

    /// Takes work for the end.
    pub(crate) fn at_end(&self) -> Option<LaterWork> {
        self.at_end.clone()
    }

    /// Where a file is written.
    pub(crate) fn place(&self, file: PathBuf) -> Result<PathBuf, String> {
        match &self.place {
            Some(place) => place(file),
            None => Ok(file),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, String> {
        (self.find)(name)
    }
}

impl Default for Paths {
    /// Files as they are named, from the folder in which the program runs.
    fn default() -> Paths {
        Paths::by(|name| Ok(PathBuf::from(name)))
    }
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Paths")
    }
}
