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
}

type Find = dyn Fn(&str) -> Result<PathBuf, String> + Send + Sync;

type Place = dyn Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync;

impl Paths {
    /// Files by a function. Its error says why a name has no file.
    pub fn by(find: impl Fn(&str) -> Result<PathBuf, String> + Send + Sync + 'static) -> Paths {
        Paths { find: Arc::new(find), place: None }
    }

    /// Has files written where a function says.
    pub(crate) fn writing(self, place: impl Fn(PathBuf) -> Result<PathBuf, String> + Send + Sync + 'static) -> Paths {
        Paths { place: Some(Arc::new(place)), ..self }
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
