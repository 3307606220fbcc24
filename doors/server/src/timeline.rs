//! A query's time line: one file that shows the recording of that query alone, by the viewer of doors/view.
//!
//! A query with a time line runs on threads of its own, which record.

use vicus_service::Service;
pub(crate) use vicus_view::needed_bytes;
use vicus_view::{Page, ReadError, RecordedRun};

/// A query's recording: one file that shows it, and from which its trace can be read.
pub(crate) struct Recording {
    pub(crate) page: Vec<u8>,
}

/// Their recording. The query is over, and no session is left.
pub(crate) fn of(service: Service, name: &str) -> Option<Recording> {
    page(vec![RecordedRun::new(name, service.recorded()?)]).map(|page| Recording { page })
}

impl Recording {
    /// The trace file of the recording.
    pub(crate) fn trace(&self) -> Option<Vec<u8>> {
        let [run] = &vicus_view::read(&mut &self.page[..]).ok()?[..] else { return None };
        let mut file = Vec::new();
        run.trace.write_to(&mut file).ok()?;
        Some(file)
    }
}

/// The page about the run of a file: a trace or an earlier page.
pub(crate) fn shown(name: &str, file: &[u8]) -> Result<Vec<u8>, ReadError> {
    let runs = vicus_view::runs(name, file)?;
    page(runs).ok_or(ReadError::NotAPage)
}

fn page(runs: Vec<RecordedRun>) -> Option<Vec<u8>> {
    let mut page = Vec::new();
    Page::new(runs).write_to(&mut page).ok()?;
    Some(page)
}
