//! Programs on a machine with several core groups, whatever machine this is: each processor has a cache of its own.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, ptr};

const CPUS: &str = "/sys/devices/system/cpu";

/// Files that stand for those in `/sys/devices/system/cpu`: the CPUs, and a cache for each. Removed when dropped.
pub(crate) struct CachesApart(PathBuf);

impl Drop for CachesApart {
    fn drop(&mut self) {
        // A leftover does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl CachesApart {
    pub(crate) fn new(test: &str) -> io::Result<CachesApart> {
        let name = format!("caches-apart-{test}-{}", std::process::id());
        let files = CachesApart(vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name));
        fs::create_dir_all(&files.0)?;
        fs::copy(Path::new(CPUS).join("online"), files.0.join("online"))?;
        for entry in fs::read_dir(CPUS)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let Some(number) = name.strip_prefix("cpu").filter(|rest| rest.parse::<u32>().is_ok()) else { continue };
            let cache = files.0.join(&name).join("cache/index0");
            fs::create_dir_all(&cache)?;
            for (file, text) in [("level", "1"), ("type", "Unified"), ("size", "32K"), ("shared_cpu_list", number)] {
                fs::write(cache.join(file), format!("{text}\n"))?;
            }
        }
        Ok(files)
    }

    /// The command with these files before its eyes, by a namespace of its own. `false`, and nothing is changed, where
    /// such a view of the files can't be had.
    pub(crate) fn show(&self, command: &mut Command) -> bool {
        let mut tried = Command::new("true");
        self.mount(&mut tried);
        let can = tried.status().is_ok();
        if can {
            self.mount(command);
        } else {
            eprintln!("left out: a core group for each processor, as this process gets no namespaces");
        }
        can
    }

    fn mount(&self, command: &mut Command) {
        let from = CString::new(self.0.as_os_str().as_bytes()).expect("a path has no zero");
        let to = CString::new(CPUS).expect("it has no zero");
        let mount = move || {
            let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS;
            #[expect(unsafe_code, reason = "no safe wrapper has namespaces")]
            // SAFETY: both calls take texts that end with a zero, or nothing, and change only the view of the caller.
            let failed = unsafe {
                libc::unshare(flags) != 0
                    || libc::mount(from.as_ptr(), to.as_ptr(), ptr::null(), libc::MS_BIND, ptr::null()) != 0
            };
            if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
        };
        #[expect(unsafe_code, reason = "the child changes its view of the files before it begins")]
        // SAFETY: between fork and exec, `mount` makes system calls alone.
        unsafe {
            command.pre_exec(mount);
        }
    }
}
