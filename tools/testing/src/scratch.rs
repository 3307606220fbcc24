//! The folder of a test program for its files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::time::Duration;

/// Folders of killed programs are kept this long, for programs whose numbers another system counts.
const KEPT: Duration = Duration::from_secs(3600);

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The folder for all files of this program, below `parent`: in a test `env!("CARGO_TARGET_TMPDIR")`. The first call
/// makes it, and the end of the program removes it, because no test is the last one for certain.
///
/// ```
/// use vicus_testing::scratch;
///
/// let folder = scratch(std::env::temp_dir());
/// std::fs::write(folder.join("of-a-test"), "text")?;
/// assert_eq!(scratch(std::env::temp_dir()), folder);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// The folder can't be made.
pub fn scratch(parent: impl AsRef<Path>) -> &'static Path {
    FOLDER.get_or_init(|| {
        let parent = parent.as_ref();
        remove_left(parent);
        let folder = parent.join(format!("scratch-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        #[expect(unsafe_code, reason = "only C's library runs something when a program ends")]
        // SAFETY: the function takes and returns nothing, and lies in the program, which is never unloaded.
        let registered = unsafe { libc::atexit(remove) };
        assert_eq!(registered, 0, "a program has room for 32 functions at its end");
        folder
    })
}

extern "C" fn remove() {
    let Some(folder) = FOLDER.get() else { return };
    // A copy of this process, made by fork, may end before the process does.
    if folder.ends_with(format!("scratch-{}", process::id())) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Removes the folders of programs that were killed.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix("scratch-")) else { continue };
        let is_old = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > KEPT));
        if is_old && !Path::new("/proc").join(id).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
