//! Cases run one after the other, each on a thread of its own and within a time, and the count of failed ones.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A longer case has failed, and is left behind.
const LONGEST: Duration = Duration::from_secs(150);

thread_local! {
    /// The message of this thread's panic.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(crate) struct Suite {
    only: Vec<String>,
    theme: &'static str,
    held: usize,
    failed: Vec<String>,
}

impl Suite {
    /// A suite of the cases with one of these words in their names; without words, all.
    pub(crate) fn new(only: Vec<String>) -> Suite {
        panic::set_hook(Box::new(|info| SAID.with_borrow_mut(|said| *said = info.to_string())));
        Suite { only, theme: "", held: 0, failed: Vec::new() }
    }

    /// Cases with shared data. If the data can't be made, that is a failure as well.
    pub(crate) fn theme(&mut self, name: &'static str, attack: fn(&mut Suite)) {
        self.theme = name;
        if panic::catch_unwind(AssertUnwindSafe(|| attack(self))).is_err() {
            self.fail(&format!("{name}: before a case"), &SAID.take());
        }
    }

    /// Whether a case is asked for.
    fn wants(&self, name: &str) -> bool {
        let name = format!("{}: {name}", self.theme);
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word))
    }

    /// Runs a case. It panics if it fails, and else returns its outcome.
    pub(crate) fn case(&mut self, name: &str, attack: impl FnOnce() -> String + Send + 'static) {
        if !self.wants(name) {
            return;
        }
        let (name, began) = (format!("{}: {name}", self.theme), Instant::now());
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(attack)).map_err(|_| SAID.take());
            let _ = tell.send(outcome);
        });
        let took = || format!("{:.1} s", began.elapsed().as_secs_f64());
        match told.recv_timeout(LONGEST) {
            Ok(Ok(came)) => {
                println!("held   {name}: {came} ({})", took());
                self.held += 1;
            }
            Ok(Err(said)) => {
                self.fail(&name, &format!("{said} ({})", took()));
                // A process that dies of the case takes a while to be dead.
                thread::sleep(Duration::from_secs(2));
            }
            Err(_) => self.fail(&name, &format!("it has not ended after {LONGEST:?}")),
        }
    }

    fn fail(&mut self, name: &str, said: &str) {
        println!("FAILED {name}: {said}");
        self.failed.push(name.to_owned());
    }

    pub(crate) fn end(self) -> ExitCode {
        println!("{} cases held, {} failed", self.held, self.failed.len());
        self.failed.iter().for_each(|name| println!("  {name}"));
        ExitCode::from(u8::from(!self.failed.is_empty()))
    }
}

/// An empty folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("attack-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

pub(crate) fn file(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    text(&path).to_owned()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a folder of ours is UTF-8")
}

/// The beginning of a text, for messages.
pub(crate) fn short(text: &str) -> String {
    let shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}

/// Waits until `holds`; false if it does not in this time.
pub(crate) fn until(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if began.elapsed() > time {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
