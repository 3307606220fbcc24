//! Temporary files for the envelopes of vias, when a request's budget is used up.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use vicus_files::scratch::{Bundle, Reading, WrittenRun};
use vicus_files::{FileError, Scratch};
use vicus_flow::{BoxError, Overflow, Overflows};
use vicus_os::SystemDirectory;

/// So many bytes of a via are written at once; as many are in memory, and those being read.
const SEGMENT: usize = 256 << 10;

/// A folder's temporary files. They have no names, and are gone with their request, or with the process.
///
/// ```
/// use std::sync::Arc;
/// use vicus_flow::{Bound, BoxModel, Envelope, ModelBuilder, Schema, Turn, Type, library};
/// use vicus_machine::{RequestOptions, MachineRuntime, TemporaryFiles};
///
/// // All numbers go to a box that has their count at the end, and to one that needs the count first: 8 MB wait.
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut net = ModelBuilder::new("count first");
/// let numbers = || (0..1000u64).map(|part| Envelope::new([vec![part; 1000].into()]));
/// let numbers = net.source(library::source("numbers", &schema, numbers));
/// let count = library::Grouping::by(&schema, []).count("count");
/// let counted = net.add(library::group(&count, library::HashKey::default(), 1));
/// let divide = || {
///     let mut at = 0;
///     move |turn: &mut Turn<'_>| -> Result<(), vicus_flow::BoxError> {
///         match turn.take(at) {
///             Some(pill) if pill.is_pill() && at == 1 => turn.send_pill(0),
///             Some(pill) if pill.is_pill() => {
///                 at = 1;
///                 turn.run_again();
///             }
///             _ => {}
///         }
///         Ok(())
///     }
/// };
/// let divide = BoxModel::new("divide", divide).input(&count.schema()).input(&schema).output(&schema);
/// let divide = net.add(divide);
/// net.connect(numbers.output(0), counted.input(0));
/// net.connect(counted.output(0), divide.input(0));
/// net.connect(numbers.output(0), divide.input(1)).bound(Bound { envelopes: 4, bytes: 1 << 16 });
/// net.end(divide.output(0));
///
/// let files = TemporaryFiles::within(&std::env::temp_dir(), 1 << 30)?;
/// let options = RequestOptions { budget: (1 << 20).into(), overflows: Some(files), ..RequestOptions::default() };
/// let runtime = MachineRuntime::builder().threads(2).start();
/// let request = runtime.submit_within(&net.build()?, Vec::new(), options);
/// request.wait()?;
/// assert!(request.counts().iter().any(|counts| counts.spilled_bytes > 1 << 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TemporaryFiles(Arc<Scratch>);

impl TemporaryFiles {
    /// In this folder, and for at most so many written bytes in all.
    ///
    /// # Errors
    /// There is no such folder, or the system refuses.
    pub fn within(folder: &Path, most: u64) -> Result<Arc<TemporaryFiles>, FileError> {
        let folder = SystemDirectory::open(folder)?;
        Ok(Arc::new(TemporaryFiles(Scratch::within(Arc::new(folder), most))))
    }

    /// For a network, in the folder that its user has named; else in the `usual` one, and nowhere if that can't be
    /// used, since memory alone may do.
    ///
    /// ```
    /// use vicus_machine::TemporaryFiles;
    ///
    /// let usual = std::env::temp_dir();
    /// assert!(TemporaryFiles::for_network(None, &usual)?.is_some());
    /// assert!(TemporaryFiles::for_network(None, "no/such/folder".as_ref())?.is_none());
    /// assert!(TemporaryFiles::for_network(Some("no/such/folder".as_ref()), &usual).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The named folder can't be used.
    pub fn for_network(named: Option<&Path>, usual: &Path) -> Result<Option<Arc<dyn Overflows>>, FileError> {
        match (TemporaryFiles::within(named.unwrap_or(usual), u64::MAX), named) {
            (Ok(files), _) => Ok(Some(files)),
            (Err(_), None) => Ok(None),
            (Err(error), Some(_)) => Err(error),
        }
    }

    /// In the same place as other temporary files of a request, and within the same bound. For doors that have such.
    #[doc(hidden)]
    pub fn beside(scratch: Arc<Scratch>) -> Arc<TemporaryFiles> {
        Arc::new(TemporaryFiles(scratch))
    }

    /// How many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.0.written()
    }
}

impl fmt::Debug for TemporaryFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporaryFiles").field("written", &self.written()).finish_non_exhaustive()
    }
}

impl Overflows for TemporaryFiles {
    fn begin(&self) -> Result<Box<dyn Overflow>, BoxError> {
        let (written, newest) = Default::default();
        Ok(Box::new(Segments { bundle: Bundle::new(Arc::clone(&self.0)), oldest: None, written, newest, place: 0 }))
    }
}

/// A queue in segments: each is written when it is full, and read as a whole.
struct Segments {
    bundle: Bundle,
    /// The segment being read, and how many of its bytes are left.
    oldest: Option<(Reading, u64)>,
    written: VecDeque<WrittenRun>,
    /// The last one, with the length of each item before it. It is read from here if it was not written.
    newest: Vec<u8>,
    /// The bytes of it that were read.
    place: usize,
}

impl Segments {
    /// Writes the newest segment. If this fails, nothing is lost.
    fn write(&mut self) -> Result<(), FileError> {
        let mut writing = self.bundle.begin()?;
        writing.write(&self.newest[self.place..])?;
        self.written.push_back(writing.finish()?);
        self.newest.clear();
        self.place = 0;
        Ok(())
    }
}

impl Overflow for Segments {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        if self.newest.len() - self.place >= SEGMENT {
            self.write()?;
        }
        self.newest.extend_from_slice(&(bytes.len() as u64).to_ne_bytes());
        self.newest.extend_from_slice(bytes);
        Ok(())
    }

    fn pop(&mut self, into: &mut Vec<u8>) -> Result<bool, BoxError> {
        into.clear();
        if self.oldest.is_none() {
            self.oldest = self.written.pop_front().map(|written| (written.read(), written.len()));
        }
        if let Some((reading, left)) = &mut self.oldest {
            let mut length = [0; 8];
            reading.read(&mut length)?;
            let length = u64::from_ne_bytes(length);
            into.resize(usize::try_from(length)?, 0);
            reading.read(into)?;
            *left -= length + 8;
            if *left == 0 {
                self.oldest = None;
            }
            return Ok(true);
        }
        let rest = &self.newest[self.place..];
        let Some((length, rest)) = rest.split_first_chunk() else {
            self.newest.clear();
            self.place = 0;
            return Ok(false);
        };
        let length = u64::from_ne_bytes(*length) as usize;
        into.extend_from_slice(&rest[..length]);
        self.place += 8 + length;
        Ok(true)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use vicus_files::FakeDisk;

    fn queue(scratch: &Arc<Scratch>) -> Box<dyn Overflow> {
        TemporaryFiles(Arc::clone(scratch)).begin().unwrap()
    }

    /// Items of all sizes, pushed and popped in turns by chance, come out as they went in.
    #[test]
    fn what_goes_in_comes_out_in_order() {
        for seed in 1..20u64 {
            let scratch = Scratch::new(Arc::new(FakeDisk::new(seed).process(1)));
            let (mut queue, mut state) = (queue(&scratch), seed);
            let mut below = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let mut expected = VecDeque::new();
            let mut popped = Vec::new();
            for turn in 0..400u64 {
                for _ in 0..below(if turn < 200 { 6 } else { 2 }) {
                    let size = if below(10) == 0 { below(1 << 20) } else { below(3000) } as usize;
                    let item = vec![turn as u8; size];
                    queue.push(&item).unwrap();
                    expected.push_back(item);
                }
                for _ in 0..below(if turn < 200 { 3 } else { 8 }) {
                    assert_eq!(queue.pop(&mut popped).unwrap(), !expected.is_empty(), "seed {seed}");
                    assert_eq!(popped, expected.pop_front().unwrap_or_default(), "seed {seed}");
                }
            }
            while let Some(item) = expected.pop_front() {
                assert!(queue.pop(&mut popped).unwrap() && popped == item, "seed {seed}");
            }
            assert!(!queue.pop(&mut popped).unwrap());
            assert!(scratch.written() > 0);
        }
    }

    /// What was put is not lost with the write that fails.
    #[test]
    fn a_full_disk_refuses_and_gives_back_what_it_has() {
        let scratch = Scratch::within(Arc::new(FakeDisk::new(3).process(1)), 1 << 20);
        let mut queue = queue(&scratch);
        let item = |number: usize| vec![number as u8; 1000 + number];
        let count = (0..).find(|&number| queue.push(&item(number)).is_err()).expect("it is full at last");
        assert!(count > 500);
        let mut popped = Vec::new();
        for number in 0..count {
            assert!(queue.pop(&mut popped).unwrap());
            assert_eq!(popped, item(number));
        }
        assert!(!queue.pop(&mut popped).unwrap());
    }
}
