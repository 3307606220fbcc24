//! The names of functions by their addresses, from the symbol tables of their files. The compilers' functions for
//! regions and tasks are local: the loader does not know them, but a file that was not stripped does.

use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

/// A file's functions, in order: offset from the start of the mapped file, number of bytes, and name.
type Functions = Vec<(u64, u64, String)>;

/// Symbol tables read so far.
pub(crate) struct Symbols {
    files: RefCell<BTreeMap<PathBuf, Functions>>,
}

impl Symbols {
    pub(crate) fn new() -> Symbols {
        Symbols { files: RefCell::new(BTreeMap::new()) }
    }

    /// The name of the function at an address; the file and the place in it if it has none.
    pub(crate) fn of(&self, address: usize) -> String {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: rule "System": the loader reads no memory at the address, and fills the structure if it finds an
        // object there.
        let info = unsafe {
            if libc::dladdr(ptr::without_provenance(address), info.as_mut_ptr()) == 0 {
                return format!("{address:#x}");
            }
            info.assume_init()
        };
        // SAFETY: rule "System": the loader's own text, as long as the object is loaded.
        let named = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes()));
        // The program itself has the name of its call, which may be relative to another folder by now.
        let file = if named.is_file() { named.to_owned() } else { PathBuf::from("/proc/self/exe") };
        let mut files = self.files.borrow_mut();
        let functions = files.entry(file).or_insert_with_key(|file| functions(file).unwrap_or_default());
        let base = info.dli_fbase.addr() as u64;
        let at = functions.first().map_or(0, |_| address as u64 - base);
        let is_around = |start: u64, bytes: u64| start <= at && at < start + bytes.max(1);
        let behind = functions.partition_point(|function| function.0 <= at);
        let found = functions[..behind].iter().rev().take(4).find(|function| is_around(function.0, function.1));
        match found {
            Some((_, _, name)) => demangled(name),
            None => {
                let file = named.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
                format!("{file}+{:#x}", address as u64 - base)
            }
        }
    }
}

/// The functions of a file.
fn functions(path: &Path) -> Option<Functions> {
    let bytes = fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    // A program that is not position-independent begins elsewhere than at 0.
    let first = file
        .segments()
        .map(|segment| segment.address() - segment.file_range().0.min(segment.address()))
        .min()
        .unwrap_or(0);
    let text = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text && symbol.address() != 0;
    let mut all: Functions = file
        .symbols()
        .filter(text)
        .filter_map(|symbol| Some((symbol.address() - first, symbol.size(), symbol.name().ok()?.to_owned())))
        .collect();
    all.sort();
    Some(all)
}

/// A readable name of C++, if the program has C++'s library to demangle it.
fn demangled(name: &str) -> String {
    type Demangle =
        unsafe extern "C" fn(*const libc::c_char, *mut libc::c_char, *mut usize, *mut i32) -> *mut libc::c_char;
    // gcc adds a suffix to the names of functions it has made of another one.
    let (mangled, rest) = name.find("._omp").map_or((name, ""), |at| name.split_at(at));
    if !mangled.starts_with("_Z") {
        return name.to_owned();
    }
    // SAFETY: rule "System": the function with this name is C++'s, of this type. Its result is null or a text of
    // `malloc`, freed once.
    let shown = || unsafe {
        let demangle = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_demangle".as_ptr());
        if demangle.is_null() {
            return None;
        }
        let demangle: Demangle = std::mem::transmute(demangle);
        let mangled = CString::new(mangled).ok()?;
        let text = demangle(mangled.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        if text.is_null() {
            return None;
        }
        let shown = CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        Some(shown)
    };
    shown().map_or_else(|| name.to_owned(), |shown| shown + rest)
}
